"""Pairs from files, tasks and data sets, and what is said when there are none."""

import csv
import io
import sys
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.data.readers import TASK_PAIRS, lines_of, read_dataset, read_pairs, read_pairs_from, read_table, read_text
from model.data.tasks import TASKS, task_pairs


def test_a_tsv_gives_its_first_two_columns_and_quotes_are_characters(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(
        '\ufeffHi.\t嗨。\tby "me"\r\n\n"Yes", he said.\t是。\n  \nA\u2028b\tc\r\nNA\tnull\nsource\ttarget'.encode()
    )
    pairs = [("Hi.", "嗨。"), ('"Yes", he said.', "是。"), ("A\u2028b", "c"), ("NA", "null"), ("source", "target")]
    assert read_pairs(path) == read_pairs_from(str(path)) == pairs
    assert read_pairs(path, header=True) == pairs[1:]


@pytest.mark.parametrize(
    ("content", "header", "pairs"),
    [
        ('Hi,嗨\n"a, ""b""\nc","d;e",x\r\n\n,,\nNA,null', None, [("Hi", "嗨"), ('a, "b"\nc', "d;e"), ("NA", "null")]),
        ("\ufeffHi, you;嗨".replace(",", "") + "\na, b;c\n", None, [("Hi you", "嗨"), ("a, b", "c")]),
        ("id;Target; SOURCE\n1;嗨;Hi\n\n2;是;Yes, sir\n", None, [("Hi", "嗨"), ("Yes, sir", "是")]),
        ("source,target\na,b\n", None, [("a", "b")]),
        ("source,target\na,b\n", False, [("source", "target"), ("a", "b")]),
        ("\nenglish,chinese\na,b\n", None, [("english", "chinese"), ("a", "b")]),
        ("\nenglish,chinese\na,b\n", True, [("a", "b")]),
        ('"a\n,;",b\n', None, [("a\n,;", "b")]),
    ],
)
def test_a_csv_is_quoted_and_has_a_header_if_it_says_so(content, header, pairs, tmp_path):
    path = tmp_path / "pairs.CSV"
    path.write_bytes(content.encode())
    assert read_pairs(path, header) == read_pairs_from(str(path), header) == pairs


# What a quoted cell may hold; a CR before a LF is a line end, and line ends become LF.
cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r")).filter(str.strip)


@settings(max_examples=40)
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=8), st.sampled_from(",;"), st.booleans())
def test_what_pythons_csv_writes_is_read_back(rows, separator, quote_all):
    written = io.StringIO()
    quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    csv.writer(written, delimiter=separator, quoting=quoting, lineterminator="\n").writerows(
        [("source", "target"), *rows]
    )
    found = read_table(written.getvalue(), "x.csv", quoted=True, header=None)
    assert [(row.source, row.target) for row in found] == rows
    lines = written.getvalue().split("\n")
    for row in found:
        assert lines[row.number - 1][:60] == row.beginning


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.tsv", b"a\tb\nno tab\n", r"line 2 of .*p.tsv has no sentence and translation .* a tab: 'no tab'"),
        ("p.tsv", b"no tab", r"line 1 of .* a tab: 'no tab'"),
        ("p.tsv", b"a\tb\n\n\tb\n", "line 3 of "),
        ("p.tsv", b"a\t \n", "line 1 of "),
        ("p.tsv", b"\n \n\t\n", "holds no sentence pairs"),
        ("p.txt", b"", "holds no sentence pairs"),
        ("p.csv", b"", "holds no sentence pairs"),
        ("p.csv", b"source,target\n", "holds no sentence pairs"),
        ("p.tsv", "a\tb\né\tb".encode("latin-1"), r"line 2 of .*p.tsv cannot be read as UTF-8 text: '.\\tb'; save"),
        ("p.tsv", "a\tb".encode("utf-16"), "p.tsv is in UTF-16: save it as UTF-8"),
        ("p.tsv", "a\tb".encode("utf-16-le"), "p.tsv is in UTF-16: save it as UTF-8"),
        ("p.tsv", None, "p.tsv does not exist"),
        ("p.xlsx", b"a\tb", r"p.xlsx must end in .tsv, .txt or .csv"),
        ("p.csv", b'a,b\n"c\nd",e\nf\n', r"line 4 of .*p.csv has no sentence and translation in two columns: 'f'"),
        ("p.csv", b"word\n", "line 1 of .*p.csv has no sentence and translation in two columns: 'word'"),
        ("p.csv", b"target,source\na, \n", "line 2 of .* in two columns: 'a, '"),
        ("p.csv", b'a,b\n\n"c,d\ne,f\n', r"line 3 of .*p.csv has a quote that is not closed, .*: '\"c,d'"),
        ("p.csv", b'"a,b\n', "line 1 of .*p.csv has a quote that is not closed"),
        ("p.csv", b'a,b\nthe 5" disk,c\n', "line 2 of .* or one inside a cell without quotes"),
        ("p.csv", b'a,b\n"c"d,e\n', "line 2 of .* a quote that is not closed, or"),
        ("p.csv", b"\nHello, you;x\n", "line 2 of .*p.csv has both , and ; outside quotes.*: 'Hello, you;x'"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_line(name, content, message, tmp_path):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_pairs(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_on_any_system(end, tmp_path):
    rows = [f"Hi {number}.\t嗨 {number}。" for number in range(3)]
    for name, joined in (("p.tsv", rows), ("p.csv", [row.replace("\t", ",") for row in rows])):
        (tmp_path / name).write_bytes(end.join([*joined, ""]).encode())
        assert read_pairs(tmp_path / name) == [(f"Hi {number}.", f"嗨 {number}。") for number in range(3)]
    (tmp_path / "t.txt").write_bytes(end.join(["a", "", "b\u2028c", "d"]).encode())
    assert lines_of(read_text(tmp_path / "t.txt")) == ["a", "b\u2028c", "d"]
    (tmp_path / "wrong.tsv").write_bytes(end.encode().join([b"a\tb", b"c\td", b"\xff\te"]))
    with pytest.raises(ValueError, match=r"line 3 of .*wrong.tsv cannot be read as UTF-8 text: '\ufffd\\te'"):
        read_pairs(tmp_path / "wrong.tsv")


def test_a_text_is_read_with_or_without_a_mark(tmp_path):
    for content in ("\ufeffa\r\nb \u2028c".encode(), "a\nb \u2028c".encode()):
        (tmp_path / "t.txt").write_bytes(content)
        assert read_text(tmp_path / "t.txt") == "a\nb \u2028c"
    with pytest.raises(ValueError, match="cannot be read: it is not a file"):
        read_text(tmp_path)


def test_a_task_is_read_with_the_count_that_is_asked():
    assert read_pairs_from("task:sort:25") == task_pairs("sort", 25, TASKS["sort"].lengths, 0)
    assert len(read_pairs_from("task:copy")) == TASK_PAIRS


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("task:sorting", "must be one of copy"),
        ("task:sort:many", "task:sort:many must be task:NAME or task:NAME:COUNT"),
        ("task:sort:", "must be task:NAME or"),
        ("datasets:x", "datasets:x needs the library datasets: run pip install datasets"),
    ],
)
def test_a_spec_of_nothing_is_refused(spec, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)  # as if it were not installed
    with pytest.raises(ValueError, match=message):
        read_pairs_from(spec)


class Loaded(list):
    """Stands for a data set: rows, and the features of its columns."""

    def __init__(self, rows, **dtypes):
        super().__init__(rows)
        self.features = {name: SimpleNamespace(dtype=dtype) for name, dtype in dtypes.items()}


DATASETS = {
    ("translated", "de-en", "train"): Loaded(
        [{"id": "1", "translation": {"de": "Ja", "en": "Yes"}}], id="string", translation="dict"
    ),
    ("group/columns", None, "train"): Loaded(
        [{"n": 1, "q": "one?", "a": "1", "more": "x"}], n="int64", q="string", a="large_string", more="string"
    ),
    ("group/columns", None, "test"): Loaded([{"q": "two?", "a": "2"}], q="string", a="string"),
    ("narrow", None, "train"): Loaded([{"text": "a", "label": 1}], text="string", label="int64"),
    ("hole", None, "train"): Loaded([{"q": "a", "a": "b"}, {"q": "c", "a": None}], q="string", a="string"),
    ("empty", None, "train"): Loaded([], q="string", a="string"),
}


@pytest.fixture
def datasets(monkeypatch):
    def load_dataset(path, name=None, *, split):
        if (path, name, split) not in DATASETS:
            raise FileNotFoundError(f"Dataset {path!r} doesn't exist on the Hub\nmore about it")
        return DATASETS[path, name, split]

    stub = ModuleType("datasets")
    stub.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", stub)


@pytest.mark.usefixtures("datasets")
def test_a_data_set_gives_its_translations_or_its_first_two_columns_of_text():
    assert read_pairs_from("datasets:translated:de-en") == [("Ja", "Yes")]
    assert read_pairs_from("datasets:group/columns") == [("one?", "1")]
    assert read_dataset("group/columns", "test") == [("two?", "2")]


@pytest.mark.usefixtures("datasets")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "datasets:other",
            "^the train split of datasets:other cannot be loaded: Dataset 'other' doesn't exist on the Hub$",
        ),
        ("datasets:", "names no data set"),
        ("datasets:narrow", "datasets:narrow has neither a translation column nor two of text: text, label"),
        ("datasets:hole", r"row 2 of datasets:hole is no pair of sentences: \['c', None\]"),
        ("datasets:empty", "datasets:empty holds no sentence pairs"),
    ],
)
def test_a_data_set_without_pairs_is_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        read_pairs_from(spec)
