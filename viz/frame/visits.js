// Another model is a step of the browser's history: Back shows the one before.
export default function ({ data: { model, first }, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? parentElement.appendChild(element("div", "vitrine"));
  root.show = (name) => setTriggerValue("model", name);
  const named = () => new URL(location.href).searchParams.get("model") ?? first;
  const visits = (bus.visits ??= { model, address: location.href });
  if (model !== visits.model && !visits.back) {
    const now = new URL(location.href); // Streamlit has put the model there, or will do so at once
    now.searchParams.set("model", model);
    history.replaceState(history.state, "", visits.address);
    history.pushState(history.state, "", now);
  }
  Object.assign(visits, { model, back: false });
  if (!visits.following) {
    visits.following = true;
    window.addEventListener("popstate", () => {
      if (named() === visits.model) return;
      visits.back = true;
      visits.show(named());
    });
    setInterval(() => {
      if (named() === visits.model) visits.address = location.href; // as it stands before another is chosen
    }, 250);
  }
  visits.show = root.show;
}
