// Written by python -m viz.render.schema: change that, not this.

interface Axis {
  title: string;
  side?: string;
  places?: number[];
  prose?: boolean;
}

interface LabelledAxis {
  title: string;
  side?: string;
  places?: number[];
  prose?: boolean;
  labels: string[];
}

interface NumericAxis {
  title: string;
  side?: string;
  places?: number[];
  prose?: boolean;
  labels?: string[];
  log?: boolean;
  low?: number;
  high?: number;
  zero?: boolean;
}

interface ScaleHeader {
  low: number;
  high: number;
  title: string;
  difference: boolean;
  floor?: number | null;
  colour?: string;
}

interface FileHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
}

interface PlotHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  name: string;
  stamp: string;
  note: string;
  sentence: string;
  alt: string;
  chosen: number;
  finding: string;
  code?: string;
}

interface TokensHeader {
  side: string;
  labels: string[];
  places: number[];
}

interface HeatmapHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  name: string;
  stamp: string;
  note: string;
  sentence: string;
  alt: string;
  chosen: number;
  finding: string;
  code?: string;
  rows: LabelledAxis;
  columns: LabelledAxis;
  scale: ScaleHeader;
  column: number;
  square: boolean;
  cells: boolean;
  tokens?: TokensHeader;
  block?: number[];
  highest?: number;
  wanted?: number;
  large?: boolean;
  texts?: string[];
  ranked?: boolean;
  valued?: boolean;
  odd?: number;
  error?: number;
}

interface LinesHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  name: string;
  stamp: string;
  note: string;
  sentence: string;
  alt: string;
  chosen: number;
  finding: string;
  code?: string;
  rows: LabelledAxis;
  columns: LabelledAxis;
  scale: ScaleHeader;
  column: number;
  square: boolean;
  cells: boolean;
  tokens?: TokensHeader;
  block?: number[];
  highest?: number;
  wanted?: number;
  large?: boolean;
  texts?: string[];
  ranked?: boolean;
  valued?: boolean;
  odd?: number;
  error?: number;
  colour: number[];
}

interface SeriesHeader {
  name: string;
  colour: string;
  mark: "line" | "bars" | "dots";
  dash: boolean;
  quiet: boolean;
  labels?: string[];
  side?: string;
  colours?: string[];
}

interface MarkHeader {
  x: number;
  text: string;
}

interface ChartHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  name: string;
  stamp: string;
  note: string;
  sentence: string;
  alt: string;
  chosen: number;
  finding: string;
  code?: string;
  x: NumericAxis;
  y: NumericAxis;
  tall: number;
  series: SeriesHeader[];
  marks?: MarkHeader[];
}

interface PanelHeader {
  name: string;
  rows: LabelledAxis;
  columns: LabelledAxis;
  note: string;
  line: number;
  scale?: ScaleHeader;
  pinned?: boolean;
  chosen?: number;
  framed?: number[];
  choose?: boolean;
  joined?: string;
}

interface PanelsHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  name: string;
  stamp: string;
  note: string;
  sentence: string;
  alt: string;
  chosen: number;
  finding: string;
  code?: string;
  panels: PanelHeader[];
  large?: boolean;
  slot?: number;
  cell?: number;
}

interface BestHead {
  kind: string;
  layer: number;
  head: number;
  label: string;
}

interface HeadGridHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  kind: string;
  stamp: string;
  alt: string;
  chosen: number[];
  order: number[][];
  columns: number;
  block: number[];
  difference: boolean;
  floor: number | null;
  notes: string[];
  best: BestHead[];
  waiting: boolean[];
  labels: Record<string, any>;
  sides: Record<string, any>;
  rows: number;
  cells: number;
  low: number;
  high: number;
  tops: number[];
  count: number;
}

interface PinnedSteps {
  differing: boolean;
}

interface StepsHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  name: string;
  stamp: string;
  alt: string;
  note: string;
  queries: string[];
  keys: string[];
  places: Record<string, any>;
  sides: Record<string, any>;
  special: Record<string, any>;
  chosen: number;
  masked: boolean[];
  pinned: PinnedSteps | null;
}

interface StackHeader {
  name: string;
  side: string;
  labels: string[];
  special: boolean[];
  rows: number[][];
}

interface BlockHeader {
  kind: string;
  name: string;
  title: string;
  short: string;
  layer: number | null;
  note: string;
  flow: number | null;
  moved: number[] | null;
  lines: string[][];
  open: string;
}

interface GuessesHeader {
  title: string;
  labels: string[];
  probabilities: number[];
  pinned: number[] | null;
  side: string;
  position: number;
}

interface ModelMapHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  name: string;
  stamp: string;
  note: string;
  sentence: string;
  alt: string;
  chosen: number;
  finding: string;
  code?: string;
  stacks: StackHeader[];
  blocks: BlockHeader[];
  predictions: GuessesHeader;
  summary: string[][];
  bypass: boolean;
  parallel: boolean;
  differing: boolean;
  scale: string;
  top: number;
  shapes: number[][];
}

interface WireHeader {
  text: string;
  kind: "norm" | "sublayer" | "dropout" | "sum";
}

interface WiringRow {
  name: string;
  formula: string;
  own: boolean;
  boxes: WireHeader[];
  past: string;
  beside?: WireHeader[];
}

interface WiringHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  name: string;
  stamp: string;
  note: string;
  sentence: string;
  alt: string;
  chosen: number;
  finding: string;
  code?: string;
  rows: WiringRow[];
}

interface ColumnHeader {
  name: string;
  formula: string;
  mark: "bar" | "signed" | "number";
  colour?: string;
}

interface ChoiceRow {
  token?: number;
  label: string;
  special: boolean;
  actual: boolean;
  open: boolean;
  rank: string;
}

interface RankingHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  name: string;
  stamp: string;
  note: string;
  sentence: string;
  alt: string;
  chosen: number;
  finding: string;
  code?: string;
  rows: ChoiceRow[];
  columns: ColumnHeader[];
  position: number;
  facts: string[];
}

interface WrittenFrame {
  label: string;
  special: boolean;
  place: number;
  position: number;
  sees: number;
  before?: number;
  last?: string;
  sentence: string;
  share: number | null;
  rows: ChoiceRow[];
}

interface DecodingFilmHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  stamp: string;
  frames: WrittenFrame[];
  source: Record<string, any>;
  context: Record<string, any>;
  side: string;
  maps: string[];
  columns: ColumnHeader[];
  depth: number;
  difference: boolean;
  top: number;
}

interface NodeHeader {
  parent: number;
  step: number;
  row: number;
  sentence: string;
  label: string;
  fate: string;
  probability: number;
  open?: boolean;
  greedy?: boolean;
}

interface HypothesisHeader {
  node: number;
  text: string;
  score: string;
}

interface FateHeader {
  fate: string;
  name: string;
}

interface BeamTreeHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  stamp: string;
  alt: string;
  nodes: NodeHeader[];
  hypotheses: HypothesisHeader[];
  legend: FateHeader[];
}

interface MatrixHeader {
  name: string;
  formula: string;
  colour: string;
  rows: string[];
  columns: string[];
  first: number;
  top: number;
}

interface MatrixLine {
  title: string;
  matrices: MatrixHeader[];
}

interface MatricesHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  name: string;
  stamp: string;
  note: string;
  sentence: string;
  alt: string;
  chosen: number;
  finding: string;
  code?: string;
  lines: MatrixLine[];
  texts: string[];
  wrong: number;
  sentence_wrong: string;
}

interface VectorHeader {
  name: string;
  place: number[];
  colour: string;
}

interface VectorsHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  name: string;
  stamp: string;
  note: string;
  sentence: string;
  alt: string;
  chosen: number;
  finding: string;
  code?: string;
  vectors: VectorHeader[];
  tall: number;
}

interface FigureFilesHeader {
  file: string;
  words: Record<string, any>;
  about?: string;
  name: string;
  curves?: string[];
  columns?: number;
}

interface TreeColumn {
  title: string;
  kind: "number" | "share" | "count" | "text" | "picture";
}

interface ProgressShare {
  share: number;
  text: string;
}

interface TensorTreeHeader {
  names: string[];
  shapes: string[];
  dtypes: string[];
  elements: number[];
  bytes: number[];
  same: number[];
  sentence: string;
  chosen: number;
  jump: boolean;
  sorted: number | null;
  most: number;
  alt: string;
  file: string;
  stamp: string;
  words: Record<string, any>;
  progress: ProgressShare | null;
  columns: TreeColumn[];
  texts: Record<string, string[]>;
  bins: number;
}

interface FindingHeader {
  name: string;
  sentence: string;
  chosen: boolean;
}

interface FindingsGroup {
  title: string;
  explanation: string;
  items: FindingHeader[];
  more: number;
}

interface FindingsHeader {
  name: string;
  sentence: string;
  alt: string;
  stamp: string;
  words?: Record<string, any>;
  groups: FindingsGroup[];
}

interface CheckpointRow {
  name: string;
  where: string;
  kind: string;
  does: string;
  format: string;
  parameters: string;
  bytes: string;
  needs: string;
  fits: boolean;
  refused: string;
  problem: string;
  current: boolean;
  computes: boolean;
  removable: boolean;
}

interface CheckpointGroup {
  title: string;
  where: string;
  rows: CheckpointRow[];
}

interface CheckpointListHeader {
  groups: CheckpointGroup[];
  words: Record<string, any>;
}

interface StatementRow {
  name: string;
  number: string;
  statement: string;
  verdict: string;
  kind: "none" | "holds" | "only" | "wrong";
}

interface StatementGroup {
  title: string;
  rows: StatementRow[];
}

interface StatementListHeader {
  groups: StatementGroup[];
}

interface ProgressHeader {
  share: number | null;
  text: string;
  button: string;
}

interface HintToken {
  label: string;
  special: boolean;
  side: string;
  position: number;
}

interface LeadHeader {
  page: string;
  sentence: string;
  hints: ((string | HintToken)[])[];
  words: Record<string, any>;
}

interface QrHeader {
  href: string;
  size: number;
  path: string;
}

interface LinkWords {
  link: string;
  copy: string;
  copied: string;
  code: string;
  here: string;
}

interface ClassStripHeader {
  role: "teacher" | "follower" | "alone";
  code: string;
  link: string;
  local: string;
  qr: QrHeader | null;
  sentence: string;
  problem: string;
  names_wanted: boolean;
  names: string[];
  name: string;
  csv: string;
  words: Record<string, any>;
}

interface BarHeader {
  label: string;
  count: number;
}

interface ClassBarsHeader {
  bars: BarHeader[];
  sentence: string;
}

interface SeveralHeader {
  count: number;
  place: number;
  words: Record<string, any>;
}

interface TextFieldHeader {
  label: string;
  text: string;
  edit: number;
  first: string;
  placeholder: string;
  most: number;
  words: Record<string, any>;
  several?: SeveralHeader;
}

interface TokenHeader {
  label: string;
  special: boolean;
}

interface BadgeHeader {
  text: string;
  passed: boolean | null;
  title: string;
  tensor?: string;
}

interface GuessChoice {
  token: number;
  label: string;
  probability: number;
}

interface GuessHeader {
  title: string;
  choices: GuessChoice[];
}

interface DeletedToken {
  label: string;
  before: number;
}

interface AlignmentHeader {
  inserted: number[];
  deleted: DeletedToken[];
}

interface AlignmentsHeader {
  source: AlignmentHeader;
  target: AlignmentHeader;
}

interface TokenPlace {
  side: string;
  position: number;
}

interface ChangeItem {
  label: string;
  value: string;
  exact: number;
  act: any;
  token: TokenPlace | null;
  opens: string;
}

interface ChangesHeader {
  title: string;
  unit: string;
  items: ChangeItem[];
}

interface PinHeader {
  pinned: Record<string, string> | null;
  differing: boolean;
  comparable: boolean;
  alignments: AlignmentsHeader;
  changes: ChangesHeader[] | null;
  words: Record<string, any>;
}

interface PiecesHeader {
  mergeable: boolean;
  merged: boolean;
  words: Record<string, any>;
}

interface ChangedHeader {
  text: string;
  refused: string;
  words: Record<string, any>;
}

interface TokenBarHeader {
  source: TokenHeader[];
  target: TokenHeader[];
  notes: Record<string, any>;
  texts: string[];
  aside: boolean;
  pages_aside: string[];
  badges: BadgeHeader[] | null;
  check: BadgeHeader | null;
  guesses: GuessHeader[];
  pin: PinHeader;
  pieces: PiecesHeader;
  changed: ChangedHeader;
  words: Record<string, any>;
}

interface FilmedKind {
  first: number;
  shape: number[];
  rows: string;
  columns: string;
}

interface RunsHeader {
  firsts: number[];
  labels: string[];
}

interface FilmHeader {
  edition: number;
  run: number;
  steps: number[];
  kinds: Record<string, FilmedKind>;
  tokens: Record<string, string[]>;
  runs: Record<string, RunsHeader>;
  answers: number[];
  names: Record<string, string>;
  keys: number[];
  ranks: number;
  words: Record<string, any>;
}

interface FactHeader {
  short: boolean;
  text: string;
  title: string;
}

interface BatchesHeader {
  sentence: string;
  chosen: number;
  sizes: any[][];
}

interface TrainingStripHeader {
  status: string;
  step: number;
  summary: string;
  about: string[];
  facts: FactHeader[];
  losses: number[];
  sentence: string;
  question: string[];
  possible: string[];
  batches: BatchesHeader;
  film: FilmHeader | null;
  words: Record<string, any>;
}

interface OtherRun {
  run: number;
  steps: number[];
  losses: (number | null)[];
}

interface TrainingFilmHeader {
  kind: string;
  labels: Record<string, any>;
  sides: Record<string, any>;
  titles: Record<string, any>;
  chosen: number[];
  norms: any[];
  others: OtherRun[];
  run: number;
  title?: string;
  words: Record<string, any>;
  about?: string;
}

interface LearntHeader {
  turn: number;
  looks: number | null;
  at: number;
  saving: number;
  followed: string[];
  choices: string[][];
  left_out: boolean;
  python: string;
  file?: string;
}

interface Edit {
  type: string;
  text: string;
  edit: number;
}

interface Click {
  answer: string;
  name: string;
  value: any;
}

interface Painted {
  seen: number;
}

interface Visible {
  visible: string[];
}

interface Hidden {
  hidden: boolean;
}

interface Hello {
  hello: boolean;
}

interface RunScript {
  script: boolean;
}

interface Waiting {
  waiting: number;
  typing: number;
}

interface Working {
  works: boolean;
}

interface TeacherScreen {
  figure: string;
  place: number;
  blank: boolean;
  pointer: number[];
  step: number | null;
}

interface Screen {
  screen: TeacherScreen | null;
}

interface MessageHeader {
  number: number;
  edits: Record<string, number>;
  frames: number[];
  more: boolean;
  gone: string[] | null;
  moved: boolean;
  took: number;
}
