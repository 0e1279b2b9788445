// What a person would see wrong on a page, as a list of findings {kind, selector, text, numbers}: `window.layout`.
(() => {
  const LETTERS = 11; // pixels: the smallest that may be read
  const MOVED = 2; // pixels that a thing may move while something is pointed at
  const CONTROLS =
    "button, a[href], input, select, textarea, summary, [tabindex='0'], " +
    ["button", "radio", "checkbox", "tab", "slider", "link", "switch"].map((role) => `[role=${role}]`).join(", ");
  const round = (value) => Math.round(value * 10) / 10;
  const parent = (node) => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host ?? null;
  const main = () => document.querySelector("[data-testid=stMain]");
  const sidebar = () => document.querySelector("[data-testid=stSidebarContent]");

  /** Every element of the page, those inside components too. */
  function* elements(root = document) {
    for (const node of root.querySelectorAll("body, body *")) {
      yield node;
      if (node.shadowRoot) yield* inner(node.shadowRoot);
    }
  }
  function* inner(root) {
    for (const node of root.querySelectorAll("*")) {
      yield node;
      if (node.shadowRoot) yield* inner(node.shadowRoot);
    }
  }
  const ancestors = (node) => {
    const chain = [];
    for (let each = node; each; each = parent(each)) chain.push(each);
    return chain;
  };

  /** A short path that a person finds it by: the named place around it, and its own name. */
  function selector(node) {
    const name = (each) => {
      const classes = String(each.className.baseVal ?? each.className).split(" ");
      const own = classes.filter((word) => word && !/^(st-emotion|e[0-9a-z]{6,}|st-[a-z0-9]{2}$)/.test(word));
      const place = own.find((word) => word.startsWith("st-key-"));
      if (place) return `.${place}`;
      if (each.dataset?.testid) return `[${each.dataset.testid}]`;
      return each.tagName.toLowerCase() + own.slice(0, 2).map((word) => `.${word}`).join("");
    };
    const chain = ancestors(node);
    const places = chain.slice(1).filter((each) => /\.st-key-|^\[st|\.vitrine/.test(name(each)));
    return [...new Set([...places.slice(0, 2).map(name).reverse(), name(node)])].join(" ");
  }

  /** Whether a person can see it: no ancestor hides it, and it has a size. */
  function isSeen(node, chain = ancestors(node)) {
    const box = node.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) return false;
    return node.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !isHidden(chain);
  }
  /** Only for screen readers, or folded away. */
  const isHidden = (chain) =>
    chain.some((each) => {
      const style = getComputedStyle(each);
      const folded = each.dataset?.testid === "stSidebar" && each.dataset.collapsed === "true";
      const clipped = style.clip !== "auto" || style.clipPath !== "none";
      const box = each.getBoundingClientRect();
      return folded || (clipped && box.width <= 2) || (style.overflow === "hidden" && (box.width < 2 || box.height < 2));
    });

  /** Boxes of the lines of an element's own words. */
  function ownWords(node) {
    const words = [...node.childNodes].filter((each) => each.nodeType === Node.TEXT_NODE && each.data.trim());
    const text = words.map((each) => each.data.trim()).join(" ");
    const lines = words.flatMap((each) => {
      const range = document.createRange();
      range.selectNodeContents(each);
      return [...range.getClientRects()];
    });
    return { text, words, lines: lines.filter((box) => box.width > 0.5) };
  }

  const finding = (kind, node, text, numbers) => ({ kind, selector: selector(node), text: text.slice(0, 60), numbers });
  const label = (node) => (node.getAttribute("aria-label") ?? node.textContent ?? "").trim().replace(/\s+/g, " ");
  const ICON = "[data-testid=stIconMaterial], [class*=material-symbols]"; // a font's ligature: its word is not read
  const UNREAD = `style, script, noscript, template, ${ICON}`;
  const FORMULA = ".katex, sub, sup"; // smaller by rule, and arranged by KaTeX

  /** Places that are wider than their window. */
  function wide() {
    return [document.scrollingElement, main(), document.querySelector(".block-container"), sidebar()]
      .filter((node) => node && isSeen(node) && node.scrollWidth > node.clientWidth + 1)
      .map((node) => finding("wide", node, "", { content: node.scrollWidth, place: node.clientWidth }));
  }

  /** What cuts these lines off: the nearest place around them that hides what stands out, and says so by no ellipsis. */
  function cutBy(chain, lines) {
    let [across, down] = [true, true];
    for (const each of chain) {
      const style = getComputedStyle(each);
      const scrolls = (overflow) => overflow === "auto" || overflow === "scroll";
      if (style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none") return null;
      const box = each.getBoundingClientRect();
      const svg = each.tagName === "svg";
      if (across && style.overflowX !== "visible" && !scrolls(style.overflowX) && (each.clientWidth || svg)) {
        const over = Math.max(...lines.map((line) => Math.max(line.right - box.right, box.left - line.left)));
        if (over > 2) return { by: each, over: round(over), of: "width" };
      }
      if (down && style.overflowY !== "visible" && !scrolls(style.overflowY) && (each.clientHeight || svg)) {
        const over = Math.max(...lines.map((line) => Math.max(line.bottom - box.bottom, box.top - line.top)));
        if (over > 4) return { by: each, over: round(over), of: "height" };
      }
      across &&= !scrolls(style.overflowX);
      down &&= !scrolls(style.overflowY);
      if (style.position === "fixed") break;
    }
    return null;
  }

  const isChinese = (text) => /[\u3000-\u9fff\uff00-\uffef]/.test(text);
  /** A word that is broken in its middle, or a text that has a few letters a line. */
  function squeezed(node, { text, words, lines }) {
    if (getComputedStyle(node).writingMode !== "horizontal-tb") return null;
    const tops = new Set(lines.map((line) => Math.round(line.top / 4))).size;
    if (tops >= 3 && text.length / tops < (isChinese(text) ? 2.5 : 4)) return { lines: tops, letters: text.length };
    if (tops < 2 || node.closest("code, pre")) return null;
    for (const each of words) {
      for (const { 0: word, index } of each.data.matchAll(/[A-Za-z]{4,14}/g)) {
        const range = document.createRange();
        range.setStart(each, index);
        range.setEnd(each, index + word.length);
        const pieces = new Set([...range.getClientRects()].map((box) => Math.round(box.top / 4))).size;
        if (pieces > 1) return { word, pieces };
      }
    }
    return null;
  }

  /** Texts that are small, squeezed, cut off, or beyond the window's edge. */
  function texts() {
    const found = [];
    for (const node of elements()) {
      if (node.matches(UNREAD) || node.closest(UNREAD)) continue;
      const own = ownWords(node);
      if (!own.lines.length) continue;
      const chain = ancestors(node);
      if (!isSeen(node, chain) || chain.some((each) => each.matches(FORMULA))) continue;
      const scale = node instanceof SVGElement ? Math.hypot(node.getScreenCTM().a, node.getScreenCTM().b) : 1;
      const size = parseFloat(getComputedStyle(node).fontSize) * scale;
      if (size < LETTERS - 0.1) found.push(finding("small", node, own.text, { size: round(size) }));
      const ribbon = squeezed(node, own);
      if (ribbon) found.push(finding("squeezed", node, own.text, ribbon));
      const cut = cutBy(chain, own.lines);
      if (cut) found.push(finding("cut", node, own.text, { over: cut.over, of: cut.of, by: selector(cut.by) }));
    }
    return [...found, ...drawnTexts()];
  }

  // Words on canvases: where each was drawn last, and how large.
  const drawn = new WeakMap();
  const pens = CanvasRenderingContext2D.prototype;
  const { fillText, clearRect } = pens;
  pens.fillText = function (words, x, y, ...rest) {
    const { a, b } = this.getTransform();
    const { width, actualBoundingBoxAscent: above, actualBoundingBoxDescent: below } = this.measureText(words);
    const left = x - width * { left: 0, start: 0, center: 0.5, right: 1, end: 1 }[this.textAlign];
    const corners = [[left, y - above], [left + width, y - above], [left, y + below], [left + width, y + below]];
    const points = corners.map(([x, y]) => this.getTransform().transformPoint({ x, y }));
    const edges = [points.map((each) => each.x), points.map((each) => each.y)];
    const letters = Number(/([\d.]+)px/.exec(this.font)[1]) * Math.hypot(a, b);
    if (!drawn.has(this.canvas)) drawn.set(this.canvas, new Map());
    const place = edges.map((all) => Math.round(Math.min(...all))).join();
    const [sides, heights] = edges.map((all) => [Math.min(...all), Math.max(...all)]);
    if (String(words).trim()) drawn.get(this.canvas).set(place, { words: String(words), letters, sides, heights });
    return fillText.call(this, words, x, y, ...rest);
  };
  pens.clearRect = function (x, y, width, height) {
    const { e, f, a } = this.getTransform();
    const whole = x * a + e <= 0 && y * a + f <= 0 && width * a >= this.canvas.width - 1;
    if (whole && height * a >= this.canvas.height - 1) drawn.delete(this.canvas);
    return clearRect.call(this, x, y, width, height);
  };
  for (const side of ["width", "height"]) {
    const { get, set } = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, side);
    Object.defineProperty(HTMLCanvasElement.prototype, side, {
      get,
      set(value) {
        drawn.delete(this); // it is empty from now on
        set.call(this, value);
      },
    });
  }
  function drawnTexts() {
    const found = [];
    for (const node of elements()) {
      if (node.tagName !== "CANVAS" || !drawn.has(node) || node.closest("[data-testid=stDataFrame]") || !isSeen(node)) continue;
      const scale = node.getBoundingClientRect().width / node.width;
      for (const { words, letters, sides, heights } of drawn.get(node).values()) {
        const size = letters * scale;
        if (size < LETTERS - 0.1) found.push(finding("small", node, words, { size: round(size) }));
        const over = Math.max(-sides[0], sides[1] - node.width, -heights[0], heights[1] - node.height) * scale;
        const inside = sides[1] > 0 && sides[0] < node.width && heights[1] > 0 && heights[0] < node.height;
        if (over > 2 && inside) found.push(finding("cut", node, words, { over: round(over), of: "canvas" }));
      }
    }
    return found;
  }

  const isAble = (node) => !node.matches(":disabled, [aria-disabled=true]") && !node.closest("[inert]");
  function controls() {
    const table = "[data-testid=stDataFrame] *"; // its own canvas and scroller lie over each other
    return [...elements()].filter((node) => node.matches(CONTROLS) && !node.matches(table) && isAble(node) && isSeen(node));
  }
  /** The innermost element at a place of the window. */
  function at(x, y) {
    let node = document.elementFromPoint(x, y);
    while (node?.shadowRoot) {
      const deeper = node.shadowRoot.elementFromPoint(x, y);
      if (!deeper || deeper === node) break;
      node = deeper;
    }
    return node;
  }
  const middle = (node) => {
    const box = node.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const isInWindow = ([x, y]) => x >= 0 && y >= 0 && x < innerWidth && y < innerHeight;
  /** A block with smaller controls within it is met beside them. */
  function surrounds(node, smaller) {
    if (!smaller) return false;
    const [around, inside] = [node.getBoundingClientRect(), smaller.getBoundingClientRect()];
    const within = inside.left >= around.left && inside.right <= around.right && inside.top >= around.top && inside.bottom <= around.bottom;
    return within && inside.width * inside.height < 0.5 * around.width * around.height;
  }
  function isReached(node) {
    const place = middle(node);
    if (!isInWindow(place)) return false;
    const hit = at(...place);
    if (!hit) return false;
    const over = ancestors(hit);
    const labelled = node.closest("label");
    const reached = over.includes(node) || (labelled && over.includes(labelled));
    return reached || (hit.tagName === "LABEL" && hit.control === node) || surrounds(node, over.find((each) => each.matches(CONTROLS)));
  }
  /** Controls whose centre is under something else wherever the page is scrolled to. */
  function covered() {
    let left = controls();
    const over = new Map();
    const look = () => {
      left = left.filter((node) => !isReached(node));
      for (const node of left) if (isInWindow(middle(node))) over.set(node, at(...middle(node)));
    };
    const scrollThrough = (place) => {
      if (!place) return;
      const before = place.scrollTop;
      for (let top = 0; top < place.scrollHeight && left.length; top += place.clientHeight * 0.4) {
        place.scrollTop = top;
        look();
      }
      place.scrollTop = before;
    };
    look();
    scrollThrough(sidebar());
    scrollThrough(main());
    for (const node of left.filter((each) => !isReached(each))) {
      node.scrollIntoView({ block: "center", inline: "center" }); // in a place of its own that scrolls
      look();
    }
    main().scrollTop = 0;
    if (sidebar()) sidebar().scrollTop = 0;
    return left.map((node) => {
      const other = over.get(node);
      return finding("covered", node, label(node), { by: other ? selector(other) : "never in the window" });
    });
  }

  // Pointing: one of each kind of thing that reacts, and what moves meanwhile.
  const POINTED = `${CONTROLS}, canvas, svg [class], .chip, [title]`;
  function kindOf(node) {
    const classes = String(node.className.baseVal ?? node.className).split(" ");
    const own = classes.filter((word) => word && !/^(st-emotion|e[0-9a-z]{6,}|st-[a-z0-9]{2}$)/.test(word));
    const component = ancestors(node).find((each) => each.classList?.contains("vitrine") && each !== node);
    const around = component ? [...component.classList].join(".") : (node.dataset?.testid ?? node.getAttribute("role"));
    return [around, node.tagName, own[0]].join(" ");
  }
  let pointed = null;
  const things = () => [...elements()].filter((node) => node.matches(POINTED) && isAble(node) && isSeen(node));
  /** Kinds of things that react. */
  const reacting = () => [...new Set(things().map(kindOf))];
  /** Where to point to meet this kind, or nothing where it is not to be met; what stands where is remembered. */
  function aim(kind) {
    const node = things().find((each) => kindOf(each) === kind);
    if (!node) return null;
    if (!isInWindow(middle(node)) || !isReached(node)) node.scrollIntoView({ block: "center" });
    if (!isReached(node)) return null;
    const seen = [...elements()].filter((each) => each.matches(`${CONTROLS}, canvas, h1, h2, h3, h4`) && isSeen(each));
    pointed = { node, boxes: new Map(seen.map((each) => [each, each.getBoundingClientRect()])) };
    return middle(node);
  }
  function moved() {
    if (!pointed) return [];
    const found = [];
    for (const [node, before] of pointed.boxes) {
      if (!node.isConnected || !isSeen(node)) continue;
      const after = node.getBoundingClientRect();
      const way = Math.max(Math.abs(after.left - before.left), Math.abs(after.top - before.top));
      if (way > MOVED) found.push([node, way]);
    }
    if (!found.length) return [];
    const [node, way] = found[0];
    const numbers = { moved: round(way), others: found.length - 1, pointed: selector(pointed.node) };
    return [finding("moved", node, label(node), numbers)];
  }

  /** What axe-core finds serious: contrast and whatever else. */
  async function accessible() {
    const rules = { "label-content-name-mismatch": { enabled: false } }; // a sign or a number is named by words
    const { violations } = await axe.run(document, { resultTypes: ["violations"], iframes: false, elementRef: true, rules });
    return violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .flatMap(({ id, nodes }) =>
        nodes.map(({ any, element }) => {
          const { fgColor, bgColor, contrastRatio } = any[0]?.data ?? {};
          const numbers = contrastRatio ? { contrast: contrastRatio, colours: `${fgColor} on ${bgColor}` } : {};
          return finding(`axe ${id}`, element, label(element), numbers);
        }),
      );
  }

  window.layout = { wide, texts, covered, accessible, reacting, aim, moved };
})();
