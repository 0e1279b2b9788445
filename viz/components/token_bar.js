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
  root.appendChild(element("div", "guesses"));
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

// What the model holds probable at a place: tokens with their probabilities, to be clicked.
function showGuesses(parent, guesses, hint, choose) {
  const rows = guesses.map(({ title, choices }, number) => {
    const row = element("div", "guess");
    row.appendChild(element("span", "muted title", title));
    for (const { token, label, probability } of choices) {
      const button = row.appendChild(element("button", "choice"));
      button.type = "button";
      button.title = `${hint} · ${probability}`;
      button.style.setProperty("--share", `${100 * probability}%`);
      button.append(element("span", "label", shown(label)), element("span", "muted", `${(100 * probability).toFixed(1)} %`));
      button.addEventListener("click", () => choose(number, token));
    }
    return row;
  });
  parent.replaceChildren(...rows);
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
  root.querySelector(".rows").classList.toggle("one", !data.target.length);
  showGuesses(root.querySelector(".guesses"), data.guesses, data.words.guess, (number, token) =>
    setTriggerValue("guess", { number, token }),
  );
  showBadges(root.querySelector(".badges"), data.badges);
  stayOnTop(parentElement);
  return () => root.stop();
}
