import assert from "node:assert/strict";
import { test } from "node:test";

import { ATTENTION, channels, DIFFERENCE, OUTPUT, PLAIN, SERIES, SIGNED } from "../../../viz/web/colours.js";
import { blend, contrast, endsOf, paletteOf } from "../../../viz/web/palettes.js";

// Of both themes as Streamlit has them.
const LOOKS = {
  light: { background: "#ffffff", colour: "rgb(49, 51, 63)" },
  dark: { background: "#171614", colour: "rgb(250, 250, 250)" },
};
const COLOURS = [PLAIN, ATTENTION, OUTPUT, ...SERIES];
const SCALES = [
  ...COLOURS.map((colour) => ({ low: 0, high: 8, colour })),
  { low: -3, high: 3, difference: false },
  { low: -3, high: 3, difference: true },
  { low: -0.2, high: 1, difference: false },
];

// What stands on the screen: a colour of a palette over the page.
const seen = (name, look) => {
  const [r, g, b, a] = name.match(/[\d.]+/g).map(Number);
  return blend(channels(look.background), [r, g, b], a);
};

// L*, the lightness as it is seen, 0 to 100 (CIE 1976).
const lightness = (colour) => {
  const luminance = 1.05 / contrast(colour, [255, 255, 255]) - 0.05;
  return luminance > 0.008856 ? 116 * Math.cbrt(luminance) - 16 : 903.3 * luminance;
};

for (const [theme, look] of Object.entries(LOOKS)) {
  test(`${theme}: the end of every scale stands out from the page, and its middle is the page`, () => {
    for (const scale of SCALES) {
      const { names } = paletteOf(scale, look);
      assert.ok(contrast(seen(names[255], look), channels(look.background)) >= 4.5, JSON.stringify(scale));
      if (scale.low < 0 && scale.low === -scale.high) assert.ok(contrast(seen(names[0], look), channels(look.background)) >= 4.5);
      if (scale.low === 0) assert.match(names[0], /,0\.000\)$/);
    }
  });

  test(`${theme}: neighbouring tenths of a scale are told apart, those of grey by lightness alone`, () => {
    for (const scale of SCALES.filter(({ low }) => low === 0)) {
      const { names } = paletteOf(scale, look);
      const steps = Array.from({ length: 11 }, (_, step) => lightness(seen(names[Math.round(25.5 * step)], look)));
      const least = Math.min(...steps.slice(1).map((step, before) => Math.abs(step - steps[before])));
      assert.ok(least >= (scale.colour === PLAIN ? 5.5 : 4), `${scale.colour} ${least}`);
    }
  });

  test(`${theme}: words are legible on every colour of cells that hold some`, () => {
    for (const scale of SCALES) {
      for (const name of paletteOf(scale, look, true).names) {
        assert.ok(contrast(channels(look.colour), seen(name, look)) >= 4.5, `${JSON.stringify(scale)} ${name}`);
      }
    }
  });
}

test("a hue that stands out is as it is; pixels are the colours as bytes", () => {
  assert.deepEqual(endsOf([channels("#0072b2")], LOOKS.light), [[0, 114, 178]]);
  assert.deepEqual(endsOf(SIGNED, LOOKS.dark)[0], channels("#d55e00"));
  assert.notDeepEqual(endsOf(DIFFERENCE, LOOKS.light), endsOf(DIFFERENCE, LOOKS.dark));
  const { names, pixels } = paletteOf({ low: -1, high: 1, difference: false }, LOOKS.light);
  assert.equal(names[255], "rgba(0,114,178,1.000)");
  assert.equal(pixels[255], 0xffb27200);
});
