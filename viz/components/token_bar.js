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

function build(parentElement) {
  const root = parentElement.appendChild(element("div", "vitrine bar"));
  const rows = root.appendChild(element("div", "rows"));
  for (const side of ["source", "target"]) {
    rows.appendChild(element("div")).appendChild(element("div", "tokens " + side)).setAttribute("role", "list");
  }
  root.appendChild(element("div", "badges"));
  root.stop = lightChips(root);
  return root;
}

function showBadges(parent, badges) {
  while (parent.children.length > badges.length) parent.lastElementChild.remove();
  badges.forEach(({ text, passed, title }, index) => {
    const badge = parent.children[index] ?? parent.appendChild(element("span"));
    badge.className = "badge " + (passed ? "passed" : "failed");
    badge.title = title;
    write(badge, (passed ? "✓ " : "✗ ") + text);
  });
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? build(parentElement);
  root.choose = (side, position) => setTriggerValue("token", { side, position });
  for (const side of ["source", "target"]) {
    const tokens = root.querySelector(".tokens." + side);
    const labels = data[side].map(({ label }) => label);
    const special = data[side].map((token) => token.special);
    tokens.setAttribute("aria-label", data.words[side]);
    showChips(tokens, labels, special, side, (...token) => root.choose(...token));
    tokens.nextElementSibling?.remove();
    if (data.notes[side]) tokens.after(element("div", "note", data.notes[side]));
  }
  showBadges(root.querySelector(".badges"), data.badges);
  stayOnTop(parentElement);
  return () => root.stop();
}
