// What the pages do: colours, search, menus, the place in the contents, paper.
//
// The theme brings two scripts and all of Bootstrap for this. They measure the whole page when it
// opens, which takes a phone seconds where there are hundreds of formulas, and take the keyboard's
// place away after a click. Nothing here reads a size before the reader is near it.

(() => {
  const root = document.documentElement.dataset;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const remember = (name, value) => {
    try {
      localStorage.setItem(name, value);
    } catch {
      // A browser may refuse to remember; the page then follows the system.
    }
  };

  // Colours: as the system has them, or as chosen.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => {
    root.theme = root.mode === "auto" ? (dark.matches ? "dark" : "light") : root.mode;
  };
  dark.addEventListener("change", paint);
  for (const button of all(".theme-switch-button")) {
    const name = () => {
      const label = `Colours: ${root.mode === "auto" ? "as the system" : root.mode}`;
      button.title = label;
      button.setAttribute("aria-label", label);
    };
    button.addEventListener("click", () => {
      const modes = dark.matches ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
      root.mode = modes[(modes.indexOf(root.mode) + 1) % modes.length];
      remember("mode", root.mode);
      paint();
      name();
    });
    name();
  }

  // A dialog closes with Escape, before the script that marks what was sought takes the key, and
  // with a click beside it.
  addEventListener(
    "keydown",
    ({ key }) => {
      if (key === "Escape") for (const dialog of all("dialog[open]")) dialog.close();
    },
    true,
  );
  const closeBeside = (dialog) =>
    dialog.addEventListener("click", (event) => {
      const box = dialog.getBoundingClientRect();
      const inside =
        box.left <= event.clientX && event.clientX <= box.right &&
        box.top <= event.clientY && event.clientY <= box.bottom;
      if (event.target === dialog && !inside) dialog.close();
    });

  // Search: a field on its own page, elsewhere a dialog.
  const dialog = document.getElementById("pst-search-dialog");
  const field = document.querySelector(":not(#pst-search-dialog) > form.bd-search input");
  const search = () => {
    if (field) field.select();
    else if (dialog.open) dialog.close();
    else dialog.showModal();
  };
  closeBeside(dialog);
  for (const button of all(".search-button__button")) button.addEventListener("click", search);
  const mac = /Mac|iPhone|iPad/.test(navigator.platform);
  if (mac) for (const key of all(".kbd-shortcut__modifier")) key.textContent = "⌘";
  addEventListener("keydown", (event) => {
    const wanted = mac ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
    if (!wanted || event.shiftKey || event.altKey || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    search();
  });

  // The two side bars become dialogs where the window is too narrow to show them. Where it is wide
  // enough, the first can be folded away.
  const move = (from, to) => {
    to.append(...from.childNodes);
    to.classList.add(...from.classList);
    from.removeAttribute("class");
  };
  for (const which of ["primary", "secondary"]) {
    const bar = document.getElementById(`pst-${which}-sidebar`);
    const modal = document.getElementById(`pst-${which}-sidebar-modal`);
    const button = document.querySelector(`.${which}-toggle`);
    if (!bar || !modal || !button) continue;
    closeBeside(modal);
    modal.addEventListener("close", () => move(modal, bar));
    button.addEventListener("click", () => {
      if (which === "primary" && matchMedia("(min-width: 992px)").matches) {
        bar.classList.toggle("pst-sidebar-hidden");
        return;
      }
      move(bar, modal);
      modal.showModal();
      modal.querySelector("a.current")?.scrollIntoView({ block: "center" });
    });
    // A link to another place of this page leads there, past the dialog.
    modal.addEventListener("click", ({ target }) => {
      if (target.closest("a")) modal.close();
    });
  }

  // The menu of downloads.
  for (const button of all(".dropdown-toggle")) {
    const menu = button.nextElementSibling;
    const open = (shown) => {
      for (const tag of [button, menu]) tag.classList.toggle("show", shown);
      button.setAttribute("aria-expanded", shown);
    };
    button.addEventListener("click", () => open(!menu.classList.contains("show")));
    button.parentElement.addEventListener("keydown", ({ key }) => {
      if (key !== "Escape") return;
      open(false);
      button.focus();
    });
    button.parentElement.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget && !button.parentElement.contains(relatedTarget)) open(false);
    });
    addEventListener("click", ({ target }) => {
      if (!button.parentElement.contains(target)) open(false);
    });
  }

  // In the contents: this page, and on it the section that is being read.
  const links = new Map(
    all(".page-toc a[href^='#']").map((link) => [decodeURIComponent(link.hash.slice(1)), link]),
  );
  const onScreen = new Set();
  const follow = (link) => {
    const list = link.closest(".bd-sidebar-secondary");
    if (!list) return;
    const [box, at] = [list, link].map((element) => element.getBoundingClientRect());
    if (at.top < box.top || at.bottom > box.bottom)
      list.scrollTop += at.top - box.top - box.height / 3;
  };
  const spy = new IntersectionObserver(
    (changes) => {
      for (const { target, isIntersecting } of changes)
        onScreen[isIntersecting ? "add" : "delete"](target.id);
      const current = [...links.keys()].findLast((id) => onScreen.has(id));
      for (const [id, link] of links) {
        link.classList.toggle("active", id === current);
        if (id !== current) link.removeAttribute("aria-current");
        else if (!link.hasAttribute("aria-current")) {
          link.setAttribute("aria-current", "true");
          follow(link);
        }
      }
    },
    { rootMargin: "-10% 0px -60%" },
  );
  for (const id of links.keys()) {
    const section = document.getElementById(id);
    if (section) spy.observe(section);
  }
  const here = document.querySelector(".bd-sidebar-primary a.current");
  if (here) {
    here.setAttribute("aria-current", "page");
    const seen = new IntersectionObserver(([{ isIntersecting, boundingClientRect }]) => {
      seen.disconnect();
      const bar = here.closest(".bd-sidebar-primary");
      if (!isIntersecting && bar) bar.scrollTop = boundingClientRect.top - bar.clientHeight / 3;
    });
    seen.observe(here);
  }

  // Who comes from the search is led to what was sought: the first block with most of its words.
  // They are marked a moment after the page is there.
  if (!location.hash) {
    setTimeout(() => {
      const words = (mark) =>
        new Set(
          all(".highlighted", mark.closest("p, li, dd, td, pre") ?? mark).map(({ textContent }) =>
            textContent.toLowerCase(),
          ),
        ).size;
      const marks = all("article section > :not(h1) .highlighted").filter(
        (mark) => !mark.closest("details:not([open])"),
      );
      const most = Math.max(...marks.map(words));
      marks.find((mark) => words(mark) === most)?.scrollIntoView({ block: "center" });
    }, 50);
  }

  // What is too wide for its place is a stop of the Tab key, so that the arrows can scroll it, and
  // fades at its right end until it is scrolled there; what fits is neither. Asked when the reader
  // comes near, and again when the window changes.
  const boxes = all(
    "article :is(pre, .formula, .output, .pst-scrollable-table-container, .wide-picture)," +
      " #cheat-sheet td",
  );
  // Of code that stands out by less than its padding, all letters are in sight.
  const fade = (box) => {
    const left = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("cut", left > (box.tagName === "PRE" ? 16 : 1));
  };
  for (const box of boxes) box.addEventListener("scroll", () => fade(box), { passive: true });
  const near = new IntersectionObserver(
    (changes) => {
      for (const { target, isIntersecting } of changes) {
        if (!isIntersecting) continue;
        fade(target);
        if (target === document.activeElement) continue;
        if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
        else target.removeAttribute("tabindex");
      }
    },
    { rootMargin: "100%" },
  );
  const ask = () => {
    near.disconnect();
    for (const box of boxes) near.observe(box);
  };
  ask();
  let later;
  addEventListener("resize", () => {
    clearTimeout(later);
    later = setTimeout(ask, 200);
  });

  // A picture that was scrolled to without a network comes when there is one again.
  addEventListener("online", () => {
    for (const image of all("img"))
      if (image.complete && !image.naturalWidth) image.src = image.src;
  });

  // The theme's button for the whole screen calls this by its name.
  window.toggleFullScreen = () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else document.documentElement.requestFullscreen();
  };

  // Back to the top: offered to who turns round. The bar above throws a shadow on what is under it.
  const top = document.getElementById("pst-back-to-top");
  let last = 0;
  addEventListener(
    "scroll",
    () => {
      document.body.classList.toggle("scrolled", scrollY > 0);
      top.style.display = scrollY < last && scrollY > innerHeight ? "block" : "none";
      last = scrollY;
    },
    { passive: true },
  );
  top.addEventListener("click", () => scrollTo({ top: 0 }));

  // Paper is white, and pictures that wait to be scrolled to would be missing on it, as would hints
  // and solutions that are folded away.
  let opened = [];
  const print = () => {
    root.theme = "light";
    for (const image of all("img[loading=lazy]")) image.loading = "eager";
    opened = [...opened, ...all("details.folded:not([open])")];
    for (const tag of opened) tag.open = true;
  };
  const printed = () => {
    paint();
    for (const tag of opened) tag.open = false;
    opened = [];
  };
  addEventListener("beforeprint", print);
  addEventListener("afterprint", printed);
  matchMedia("print").addEventListener("change", ({ matches }) => (matches ? print() : printed()));

  // Browsers let no page read another over file://: search shows no excerpts there.
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
})();
