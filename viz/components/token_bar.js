// The tokens of both sides, what was cut off, and the check badges.
// The bar around this component stays on top, on the page's background. By hand: CSS would need :has(), which the
// browser evaluates again at every change of the page, and Streamlit's colours are variables inside components only.
function stayOnTop(parentElement) {
  const host = parentElement.getRootNode().host ?? parentElement;
  const bar = host.closest(".st-key-input_bar");
  if (!bar) return;
  bar.parentElement.classList.add("vitrine-sticky");
  bar.style.backgroundColor = getComputedStyle(host).getPropertyValue("--st-background-color");
}

export default function ({ data, parentElement, setTriggerValue }) {
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = element("div", "vitrine bar");
    root.stop = lightChips(root);
    parentElement.appendChild(root);
  }
  const choose = (side, position) => setTriggerValue("token", { side, position });
  const row = (side, tokens, note) => {
    const made = element("div", "tokens " + side);
    made.setAttribute("role", "list");
    made.setAttribute("aria-label", data.words[side]);
    tokens.forEach(({ label, special }, position) => {
      const token = chip(label, side, position, special, choose);
      token.classList.toggle("chosen", side === data.chosen.side && position === data.chosen.position);
      made.appendChild(token);
    });
    if (note) made.appendChild(element("span", "note", note));
    return made;
  };
  const badges = element("div", "badges");
  for (const { text, passed, title } of data.badges) {
    const badge = element("span", "badge " + (passed ? "passed" : "failed"), (passed ? "✓ " : "✗ ") + text);
    badge.title = title;
    badges.appendChild(badge);
  }
  const rows = element("div", "rows");
  rows.append(row("source", data.source, data.notes.source), row("target", data.target, data.notes.target));
  root.replaceChildren(rows, badges);
  stayOnTop(parentElement);
  return () => root.stop();
}
