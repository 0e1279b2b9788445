// Types of what the modules share; those of headers are in types.d.ts, which viz/render/schema.py writes.

/** What Streamlit, or the channel, gives a component to draw. */
interface Given {
  data: any;
  key: string;
  parentElement: HTMLElement;
  setTriggerValue(name: string, value: unknown): void;
  setStateValue(name: string, value: unknown): void;
}

/** A component's module. What its function gives ends what it has drawn. */
interface Component {
  default(given: Given): (() => void) | void;
}

/** A component's element, with what the component keeps in it. */
interface Root extends HTMLElement {
  [name: string]: any;
}

/** An array behind a header, of whichever type; its values are numbers. */
type Numbers = Float32Array;

// What a component looks for in its own tree is there.
interface ParentNode {
  querySelector(selector: string): any;
  querySelectorAll(selector: string): NodeListOf<any>;
}

interface Element {
  closest(selector: string): any;
  setAttribute(name: string, value: string | number | boolean): void;
}

interface CSSStyleDeclaration {
  setProperty(name: string, value: string | number): void;
}

interface Node {
  getRootNode(): any;
}

/** What stands behind a header. */
interface Behind {
  arrays: Numbers[];
}

type Hues = number[][];

/** What a palette is of: a scale, which may have no title. */
type ScaleEnds = Pick<ScaleHeader, "low" | "high"> & Partial<ScaleHeader>;

/** 256 colours, as CSS has them and as pixels, 0xAABBGGRR. */
interface Palette {
  names: string[];
  pixels: Uint32Array;
}
type Point = number[];
type Rect = [number, number, number, number];
/** A value, and how it is written beside an axis. */
type Mark = [number, string];
type Labels = string[];

/** A view's bytes behind their stamp, see View.frame in view.py. */
interface Frame {
  key: string;
  of: string;
  moment: number;
  live: string[];
  data: Uint8Array;
}

interface MountedView {
  parent: HTMLElement;
  name: string;
  module: Component;
  given: Given;
  of?: string;
  moment: number;
  data?: Uint8Array;
  failed?: boolean;
  late?: number;
  end?: (() => void) | void;
  turn?: object;
}

/** A text as it is typed, after so many edits. learn: tells the script, while a field of it is on the page. */
interface TypedText {
  key: string;
  text: string;
  edit: number;
  learn?: (typed: object) => void;
}

interface Channel {
  drawn: Record<string, number>;
  came: Set<string>;
  failures: number;
  isOpen(): boolean;
  send(message: Edit | Click | Painted | Visible | Hidden): boolean;
  isBehind(): boolean;
  lookByScript(): void;
  await(): void;
  say(text: string): void;
  run(): void;
  data: any;
  words: Record<string, string>;
  root?: Root;
  socket?: WebSocket;
  took?: number;
  awaiting?: number;
  again?: number;
  looking?: number;
  heard?: number;
  since?: number;
  gone?: string;
}

/** The film of a training as the browser has it, see film_store.js. */
interface Film extends Omit<FilmHeader, "names"> {
  frames: Map<number, FilmFrame>;
  names: Record<number, string>;
}

interface FilmFrame {
  weights: Uint8Array;
  best: Int32Array;
  probabilities: Uint8Array;
  norms: Float32Array;
  loss: number;
}

interface Bus extends EventTarget {
  views: Map<string, MountedView>;
  frames: Map<string, Frame>;
  fields: Map<string, TypedText>;
  held?: Record<string, number>;
  named?: Record<string, string>;
  lit?: Record<string, number>;
  merged?: boolean;
  /** Not before channel.js is there. */
  channel?: Channel;
  film?: Film;
  /** Name of the button that presents a figure, once it can, see present.js. */
  present?: string;
  /** Begins the tour, see tour.js. */
  tour?(): void;
  /** Lines of Python that give the page's figures, see python_code.py. */
  python?: string;
  at?: number | null;
  flags: Record<string, any>;
  comparing: boolean;
  followed?: Set<string>;
  looks?: number | null;
  due?: boolean;
  /** Pixels of the window that a lesson's text lies over, see in_sight.js. */
  covered?: number;
  turn?: number;
  told?: number[];
  learnLater?(wait: number): void;
  /** The field that is typed in, where its caret is, and letters that came while it was off the page. */
  focus?: { key: string; root: Root; letters: string; caret: number };
  sought?: number;
  preparing?: { number: number; done(handed: any): void };
  visits?: any;
  left?: HTMLStyleElement;
  turning?: number;
  /** What the teacher of a class session presents, where this window follows, see class_screen.js. */
  screen?: TeacherScreen | null;
  /** The step that is open, see lesson.js. */
  lesson?: LessonStep;
  /** What a class has answered to its question, in the teacher's window. */
  answers?: ClassBarsHeader;
}

/** A place of a figure that was clicked: a cell of a map, or a number of a chart's x axis. */
interface ClickedPlace {
  key: string;
  row?: number;
  column?: number;
  x?: number;
}

interface LessonLight {
  kind: string;
  what: string;
}

/** A step of a lesson, for whatever shows it. Paragraphs: of spans, each a text and its style; a number in a list. */
interface LessonStep {
  root: Root;
  lesson: string;
  step: number;
  count: number;
  title: string;
  question: string;
  options: string[];
  /** What is not as in the lesson's text. */
  asides: string[];
  /** Beginnings of keys of the figure that it is about, see in_sight.py. */
  figures: string[];
  place: string;
  lights: LessonLight[];
  paragraphs: { number: number | null; spans: [string, string][] }[];
  go(step: number): void;
}

declare var __vitrine: Bus;

/** How wide a label is; `words`: any other text. */
interface Measure {
  (label: string): number;
  words(text: string): number;
}

interface Look {
  text: string;
  token: string;
  colour: string;
  background: string;
  mark: string;
  pinned: string;
  [colour: string]: string;
}

interface TextStyle {
  align?: "left" | "center" | "right";
  turn?: number;
  marked?: boolean;
  room?: number; // height of the row of a marked label: its mark is no higher
  strong?: boolean;
  token?: boolean;
  colour?: string;
  faint?: boolean;
  size?: number;
}

interface FrameStyle {
  width?: number;
  colour?: string;
  faint?: boolean;
  radius?: number;
  fill?: string;
}

interface LineStyle {
  colour?: string;
  width?: number;
  dash?: number[];
  faint?: boolean;
}

/** What a plot is drawn with, on a canvas or into SVG. */
interface Pen {
  vector?: boolean;
  look: Look;
  background: string;
  text(words: string, x: number, y: number, style: TextStyle): void;
  box(x: number, y: number, width: number, height: number, colour: string): void;
  frame(x: number, y: number, width: number, height: number, style: FrameStyle): void;
  line(points: Point[], style: LineStyle): void;
  dot(x: number, y: number, radius: number, colour: string): void;
  hatch(x: number, y: number, width: number, height: number): void;
  /** part: [x, y, width, height] of the canvas. */
  picture(canvas: HTMLCanvasElement, part: Rect, x: number, y: number, width: number, height: number): void;
}

/** A kind of plot: `Place` says where everything goes, `Shown` what is drawn. */
interface PlotKind<Place = any, Shown = any> {
  arrange(header: any, width: number, ratio: number, measure: Measure): Place;
  draw(pen: Pen, place: Place, view: Shown): void;
  /** Follows the pointer; without an event it has left. */
  point(root: PlotRoot<Place, Shown>, event?: Pointed): void;
  click(root: PlotRoot<Place, Shown>, event: Pointed): void;
  /** The next place in a direction, from the keyboard. */
  walk?(root: PlotRoot<Place, Shown>, from: any, right: number, down: number): { x: number; y: number };
  /** The table of its CSV. */
  lines(shown: Shown): string[][];
  /** Sides of its tokens. */
  sides(header: any): (string | undefined | null)[];
  /** Is told where everything has gone. */
  placed?(root: PlotRoot<Place, Shown>): void;
}

/** Where a pointer is, or the keyboard's place. */
type Pointed = Pick<MouseEvent, "clientX" | "clientY"> & Partial<Pick<MouseEvent, "detail">>;

interface PlotRoot<Place = any, Shown = any> extends Root {
  kind: PlotKind<Place, Shown>;
  files?: Record<string, (root: any) => Promise<Blob | null>>;
  canvas: HTMLCanvasElement;
  heading: HTMLElement;
  tip: HTMLElement;
  shown: Shown;
  place: Place;
  width: number;
  lit: Record<string, number>;
  pointed: any;
  cursor: any;
  soon?: number;
  choose(...what: any[]): void;
  explain?(): void;
  stop(): void;
}

/** A root of thumbnails, see thumbnails.js. */
interface ThumbnailsRoot extends Root {
  grid: HTMLElement;
  picture: HTMLCanvasElement;
  atlas: HTMLCanvasElement;
  caption: HTMLElement;
  thumbnails: HTMLButtonElement[];
  places?: number[][];
  size: number[];
  lit: Record<string, number>;
  soon?: number;
  shown: ShownThumbnails & Record<string, any>;
  hatched?: { states: Numbers; width: number; height: number; picture: HTMLCanvasElement | null };
}

/** Thumbnails of (thumbnail, row, cell) levels. */
interface ShownThumbnails {
  levels: ArrayLike<number>;
  states: Numbers;
  count: number;
  columns: number;
  rows: number;
  cells: number;
  low: number;
  high: number;
  /** The level of `high`. */
  most?: number;
  tops: number[];
  floor?: number | null;
  difference: boolean;
  sides?: Record<string, any>;
  block?: number[];
  waiting?: boolean[];
}

/** A map's values (row, column), and which of them are seen: 0 masked, 1 visible, HIDDEN, ODD. */
interface ShownHeat {
  header: HeatmapHeader;
  values: Numbers;
  visible: Numbers;
  chosen: number;
  column?: number;
  /** Cells with a frame around them. */
  framed?: number[][];
  lit?: Record<string, number>;
  pointed?: any;
}

interface ShownLines extends ShownHeat {
  header: LinesHeader;
}

interface ShownSeries extends SeriesHeader {
  xs: Numbers;
  ys: Numbers;
}

interface ShownChartHeader extends ChartHeader {
  series: ShownSeries[];
}

interface ShownChart {
  header: ShownChartHeader;
  chosen?: number;
  lit?: Record<string, number>;
  pointed?: any;
}

/** flags: 1 a visible cell, 2 more a changed one. */
interface ShownPanel extends PanelHeader {
  values: Numbers;
  flags: Numbers;
}

interface ShownPanelsHeader extends PanelsHeader {
  panels: ShownPanel[];
}

interface ShownPanels {
  header: ShownPanelsHeader;
  lit?: Record<string, number>;
  pointed?: any;
}

interface ShownChoice extends ChoiceRow {
  values: Numbers;
}

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** A view that a saved page mounts again. */
interface SavedView {
  key: string;
  name: string;
  data: Uint8Array;
}

/** A step of the tour: controls by their selector, or a part of a component; a sentence on them, and one for a finger; whether
 * they are in the header. */
interface TourStop {
  target: string;
  part: string;
  sentence: string;
  touch: string;
  header: boolean;
}

/** A block of the map, or a head of it. */
interface Area {
  number: number;
  head: number | null;
  box?: number[];
}

/** A part of a tensor's name, and what is below it; row: of a tensor, −1 of a part. */
interface TreeNode {
  label: string;
  path: string;
  parent: number;
  row: number;
  children: number[];
  sum: { tensors: number; parameters: number; bytes: number };
}

/** A map with its pictures, the CSS pixels that lie over it, and the norm of its widest arrow. */
interface ShownMap extends ModelMapHeader {
  pictures: { values: Numbers; shape: number[] }[];
  covered: number;
  thickest: number;
}

/** A film that a player plays: the frame that is shown, the last one, and where playing begins. */
interface PlayedFilm {
  at(): number;
  last(): number;
  start(): number;
  go(frame: number): void;
  /** Page Up and Page Down lead over a tenth of it. */
  leaps?: boolean;
}

interface Player {
  controls: HTMLElement;
  speed: HTMLSelectElement;
  buttons: Record<string, HTMLButtonElement>;
  /** The animation frame that is asked for while it plays. */
  playing?: number;
  /** Words of the button that plays; keys: what a keyboard does. */
  words?: PlayerWords;
  play(on: boolean): void;
  seek(frame: number): void;
  steer(event: KeyboardEvent): boolean;
  name(words?: PlayerWords): void;
}

type PlayerWords = Record<"play" | "pause" | "keys", string>;
