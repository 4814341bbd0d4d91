// Renders formulas to SVG with MathJax. Reads {mathjax, macros, formulas: [[tex, display], …]} from
// standard input; writes {formulas: [{html} or {error}, …], glyphs: {id: path}} to standard output.
const { mathjax, macros, formulas } = JSON.parse(require("fs").readFileSync(0, "utf8"));
// Standard output carries the result alone.
console.log = console.info = console.error;

require(`${mathjax}/node-main.js`)
  .init({
    loader: {
      paths: { mathjax },
      load: ["input/tex-full", "output/svg", "a11y/assistive-mml", "adaptors/liteDOM"],
    },
    tex: {
      // Without noerrors and noundefined an error is an error. Without newcommand no formula can
      // change another, so that each can be cached by itself.
      packages: ["base", "ams", "boldsymbol", "cancel", "configmacros", "mathtools"],
      tags: "none",
      macros,
      formatError(_, error) {
        throw error;
      },
    },
    // Paths shared by id: each page gets those it uses, once.
    svg: { fontCache: "global", mtextInheritFont: false },
  })
  .then((MathJax) => {
    const adaptor = MathJax.startup.adaptor;
    const render = ([tex, display]) => {
      try {
        const html = adaptor.outerHTML(MathJax.tex2svg(tex, { display }));
        return /data-mjx-error|<merror/.test(html) ? { error: "not readable" } : { html };
      } catch (error) {
        return { error: error.message };
      }
    };
    const results = formulas.map(render);
    const cache = MathJax.startup.document.outputJax.fontCache.getCache();
    const glyphs = {};
    for (const path of adaptor.childNodes(cache)) {
      glyphs[adaptor.getAttribute(path, "id")] = adaptor.getAttribute(path, "d");
    }
    process.stdout.write(JSON.stringify({ formulas: results, glyphs }));
  })
  .catch((error) => {
    process.stderr.write(`${error.stack || error}\n`);
    process.exitCode = 1;
  });
