// Pages and models are the steps of the browser's history: Back shows the one before. What else the address says is not.
const named = (first) => new URL(location.href).searchParams.get("model") ?? first;

// On a phone the menu lies over the page that was chosen in it.
function foldMenu() {
  if (!window.matchMedia("(max-width: 640px)").matches) return;
  document.querySelector('[data-testid="stSidebarCollapseButton"] button')?.click();
}

// Streamlit would make a step of every choice, and Back would lead through all of them.
function stepsOfPages() {
  const push = history.pushState.bind(history);
  history.pushState = (state, title, address) => {
    const same = new URL(address ?? location.href, location.href).pathname === location.pathname;
    if (same) history.replaceState(state, title, address);
    else {
      push(state, title, address);
      foldMenu();
    }
  };
  return push;
}

export default function ({ data: { model, first }, parentElement, setTriggerValue }) {
  if (!parentElement.querySelector(".vitrine")) parentElement.appendChild(element("div", "vitrine"));
  const begins = !bus.visits;
  const visits = (bus.visits ??= { model, address: location.href, push: stepsOfPages() });
  visits.show = (name) => setTriggerValue("model", name);
  visits.first = first;
  if (model !== visits.model && !visits.back) {
    const now = new URL(location.href); // Streamlit has put the model there, or will do so at once
    now.searchParams.set("model", model);
    history.replaceState(history.state, "", visits.address);
    visits.push(history.state, "", now);
  }
  Object.assign(visits, { model, back: false });
  if (!begins) return;
  window.addEventListener("popstate", () => {
    if (named(visits.first) === visits.model) return;
    visits.back = true;
    visits.show(named(visits.first));
  });
  setInterval(() => {
    if (named(visits.first) === visits.model) visits.address = location.href; // as it stands before another is chosen
  }, 250);
}
