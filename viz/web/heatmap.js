// A labelled heatmap by itself; heat.js draws it.

import { tellPlace } from "./bus.js";
import { unpack } from "./bytes.js";
import { ending } from "./elements.js";
import { buildPlot, showPlot } from "./plot.js";
import { HEAT } from "./heat.js";

/** @param {Given} given */
export default function ({ data, key, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? buildPlot(parentElement, "heatmap", HEAT);
  /** @type {HeatmapHeader & Behind} */
  const header = unpack(data);
  const [values, visible] = header.arrays;
  root.choose = (/** @type {number} */ row, /** @type {number} */ column) => {
    header.cells ? setTriggerValue("cell", { row, column }) : setTriggerValue("row", row);
    tellPlace({ key, row, column });
  };
  root.explain = () => setTriggerValue("about", performance.now());
  showPlot(root, { header, values, visible, chosen: header.chosen, column: header.column });
  return ending(root);
}
