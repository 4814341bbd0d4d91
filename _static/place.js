// The reader's place. A section has its height only once it has been near the window, so that how
// far a page was scrolled does not say where the reader was. What stood at the top of the window
// does: it is noted when the reader leaves, and found again after a reload and on the way back.

(() => {
  const BLOCK = ".bd-article section > *";
  const blocks = () => [...document.querySelectorAll(BLOCK)];
  const middle = () => innerWidth / 2;

  // The block at the top, and how far below the top it begins; nothing at the page's beginning.
  const place = () => {
    for (let y = 0; scrollY && y < innerHeight; y += 40) {
      const found = document.elementsFromPoint(middle(), y).find((tag) => tag.matches(BLOCK));
      if (found) return [blocks().indexOf(found), found.getBoundingClientRect().top];
    }
    return null;
  };
  const note = () => history.replaceState({ ...history.state, place: place() }, "");
  const find = (state) => {
    if (state?.place) {
      const [index, top] = state.place;
      const block = blocks()[index];
      block?.scrollIntoView({ behavior: "instant" });
      if (block) scrollBy({ top: block.getBoundingClientRect().top - top, behavior: "instant" });
    } else if (location.hash) {
      document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
    } else {
      scrollTo(0, 0);
    }
  };

  // The browser forgets a state that is set while a page closes.
  const key = `place ${location.pathname}`;
  const leave = () => {
    try {
      sessionStorage.setItem(key, JSON.stringify({ place: place() }));
    } catch {
      // A browser may refuse to remember; the page then opens at its beginning.
    }
  };
  const noted = () => {
    try {
      return JSON.parse(sessionStorage.getItem(key));
    } catch {
      return null;
    }
  };

  history.scrollRestoration = "manual";
  addEventListener("pagehide", leave);
  document.addEventListener("click", (event) => {
    if (event.target.closest('a[href^="#"]')) note();
  });
  addEventListener("popstate", (event) => find(event.state));
  const [arrival] = performance.getEntriesByType("navigation");
  if (["reload", "back_forward"].includes(arrival?.type)) {
    const state = noted();
    find(state);
    // Once more when fonts and pictures have their sizes.
    addEventListener("load", () => setTimeout(() => find(state)));
  }
})();
