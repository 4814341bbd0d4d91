# The book's commands. Each works from a clean clone; the work is done by the scripts in tools/.

.DEFAULT_GOAL := help
.PHONY: help setup book colab student teacher grade test coverage conformance checkers mutation named-bugs bench budgets audit variants versions dist serve run checkpoints format lock clean

# The environment is chosen here and nowhere else.
unexport PYTHONPATH PYTHONHOME
export PYTHON TORCH NUMPY MATPLOTLIB CHAPTER PORT UPGRADE FILES OUT
py := .venv/bin/python

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup:
	@sh tools/setup.sh

book: setup  ## build the pages into _build/html
	@$(py) tools/locked.py .make/build.lock $(py) tools/build.py

colab: book  ## make the notebooks for Colab, GitHub and Jupyter, and the package's wheel, in _build/colab

student: book  ## make the students' notebooks of exercises, without solutions, in _build/student
	@$(py) -m course.editions student

teacher: book  ## make the teachers' notebooks of exercises, with solutions and notes, in _build/teacher
	@$(py) -m course.editions teacher

grade: setup  ## grade a student's notebook or a folder of them (FILES=submissions/ OUT=… PARALLEL=2)
	@$(if $(FILES),,$(error say what to grade: make grade FILES=submissions/))
	@$(py) -m course.grade "$$FILES" $(if $(OUT),--out "$$OUT") $(if $(PARALLEL),--parallel $(PARALLEL)) \
	    $(if $(CELL),--cell $(CELL)) $(if $(WHOLE),--whole $(WHOLE)) $(if $(MEMORY),--memory $(MEMORY))

test: setup  ## check style and types, build the book, then test the package, the notebooks and the pages
	@sh tools/test.sh

coverage: setup  ## measure which lines and branches of attention/ the tests run, and the notebooks alone
	@sh tools/coverage.sh

conformance: setup  ## run the cases of ONNX and PyTorch through the package, and count them (WRITE=1 stores)
	@$(py) tools/conformance.py $(if $(WRITE),--write)

checkers: setup  ## try the exercises' checkers on right and wrong answers, and print what exposes each (WRITE=1 stores)
	@$(py) tools/checkers.py $(if $(WRITE),--write)

mutation: setup  ## change the package in every small way, and see that its tests notice (CHANGED=1, WRITE=1)
	@$(py) tools/mutation.py $(if $(CHANGED),--changed) $(if $(WRITE),--write)

named-bugs: setup  ## count which named bugs the notebooks alone would notice (WRITE=1 stores)
	@$(py) tools/named_bugs.py $(if $(WRITE),--write)

bench: setup  ## time the package beside what a user would pick instead (WRITE=1 stores)
	@$(py) benchmarks/bench.py $(if $(WRITE),--write)

budgets: setup  ## time the build and the notebooks in a fresh clone, weigh the pages (WRITE=1 stores)
	@$(py) tools/budgets.py $(if $(WRITE),--write)

audit: book  ## measure speed and accessibility of every page with Lighthouse (RUNS=5 PAGE=… WRITE=1)
	@$(py) tools/audit.py --runs $(or $(RUNS),5) $(if $(PAGE),--page "$(PAGE)") $(if $(WRITE),--write)

variants: setup  ## rerun the notebooks with other threads, vector units and kernels, and byte for byte
	@sh tools/variants.sh

versions:  ## test with other versions of PYTHON, TORCH, NUMPY, MATPLOTLIB: lock, oldest, newest or a number
	@$(firstword $(wildcard $(py)) python3) tools/versions.py

dist: setup  ## build the wheel and the sdist into _build/dist, and test them
	@rm -rf _build/dist
	@$(py) -m build --no-isolation --outdir _build/dist .
	@$(py) -m pytest -q tests/publishing/test_distributions.py

serve: book  ## show the built book on localhost (PORT=8000)
	@$(py) tools/serve.py

run: setup  ## execute every chapter and store its outputs (CHAPTER=name for one)
	@$(py) tools/execute.py $(if $(CHAPTER),"$$CHAPTER")

checkpoints: setup  ## train anew the models that the chapter on heads reads (some minutes)
	@$(py) tools/checkpoint.py

format: setup  ## lay out code and notebooks, mend what can be mended, as the tests want them
	@$(py) -m ruff check --fix --quiet . || true
	@$(py) -m ruff format .
	@$(py) tools/execute.py --no-run

lock:  ## write requirements.txt anew from pyproject.toml (UPGRADE=1 for the newest releases)
	@sh tools/lock.sh

clean:  ## remove all that these commands have made
	rm -rf .venv .make _build build .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
