// A labelled heatmap by itself; heat.js draws it.

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? buildPlot(parentElement, "heatmap", KIND);
  const header = unpack(data);
  const [values, visible] = header.arrays;
  root.choose = (row, column) => (header.cells ? setTriggerValue("cell", { row, column }) : setTriggerValue("row", row));
  root.explain = () => setTriggerValue("about", performance.now());
  showPlot(root, { header, values, visible, chosen: header.chosen, column: header.column });
  return ending(root);
}
