"""Tables of factors: how they are read and numbered, and what their errors say."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from untwine.data.files.columns import BINS, MANY
from untwine.data.files.factor_table import FactorTable
from untwine.data.files.formats.sheets import factor_table
from untwine.errors import UntwineError


def read(tmp_path: Path, text: str | bytes, name: str = "factors.csv", kinds: tuple[str, ...] = ()) -> FactorTable:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return factor_table(path, kinds)


# --- reading ----------------------------------------------------------------------------------------


def test_what_spreadsheets_write_is_read(tmp_path):
    text = '\ufefffile,size,"shape, in words"\r\n"a ""x"".png", 10 ,"big, red"\r\n\r\nb.png,+9,star\r\n'
    table = read(tmp_path, text)
    assert table.names == ("size", "shape, in words") and table.files == ('a "x".png', "b.png")
    assert table.columns[0].tolist() == [10, 9] and table.columns[1].tolist() == ["big, red", "star"]
    assert read(tmp_path, "Größe\n1\n", "factors.TSV").names == ("Größe",)


@pytest.mark.parametrize(
    ("cells", "values", "kind"),
    [
        (["10", "9", "-1"], [2, 1, 0], "ordered"),
        (["0.5", "1e-3", ".25"], [2, 0, 1], "ordered"),
        (["1.0", "1", "01"], [0, 0, 0], "ordered"),
        (["10", "9", "nine", "ten"], [0, 1, 2, 3], "categorical"),  # as texts: "10" comes first
        (["true", "false", "true"], [1, 0, 1], "categorical"),
        (["no hat", "hat", "no hat"], [1, 0, 1], "categorical"),
        (["inf", "sup", "1.2.3"], [1, 2, 0], "categorical"),
        ([str(2**60 + 1), str(2**60), "0"], [2, 1, 0], "ordered"),  # which floats do not tell apart
        ([str(2**63 - 1), str(-(2**63)), "0" * 5000 + "7"], [2, 0, 1], "ordered"),
        ([str(2**60), "1e30", "0.5"], [1, 2, 0], "ordered"),  # a float holds it as it is
    ],
)
def test_columns_of_numbers_are_ordered_and_columns_of_texts_are_not(tmp_path, cells, values, kind):
    labels, space = read(tmp_path, "\n".join(["x", *cells])).numbered()
    assert labels[:, 0].tolist() == values and space.kinds == (kind,) and space.sizes == (len(set(values)),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n1,2\n3,\n", "line 3 has nothing in column 'y'"),
        ("x,y\n1,2\n 3\n", "line 3 has 1 cells, and the first line names 2 columns"),
        ("x,\n1,2\n", "column 2 has no name"),
        ("x,x\n1,2\n", "column 2 is called 'x', as another one is"),
        ("file,image\na,b\n", "which column names the picture, file or image?"),
        ("file\na\n", "has no column but 'file': it needs one for each factor"),
        ("x,y\n", "must have a line with the names of its columns, and a line for each picture"),
        ("", "must have a line with the names of its columns"),
        ("file;x\na;1\n", "seems to have its columns parted by ';'; a .csv file has commas"),
        ("file;x,y\na;1,2\n", "seems to have its columns parted by ';'; a .csv file has commas"),
        ("file\tx,y\na\t1,2\n", "seems to have its columns parted by '\\t'; a .csv file has commas"),
        ("1,2\n3,4\n", "begins with numbers: its first line must have the names of the columns"),
        ("x\n1\nNaN\n2\n", "column 'x' has 'NaN' in line 3, as if it were missing"),
        ("x\n1\n1e999\n", "column 'x' has '1e999' in line 3, which is too large"),
        ('x\n"1\n', "cannot be read: unexpected end of data"),
        (b"x\n\xff\n", "is no text in UTF-8"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path, text, message):
    with pytest.raises(UntwineError) as error:
        read(tmp_path, text)
    assert message in str(error.value) and "factors.csv" in str(error.value)


@pytest.mark.parametrize("mark", ["nan", "NaN", "NA", "null", "None", "n/a", "-"])
@pytest.mark.parametrize("kinds", [(), ("hat=categorical",)])
def test_a_value_that_is_missing_is_refused_among_texts_too(tmp_path, mark, kinds):
    with pytest.raises(
        UntwineError, match=rf"column 'hat' has '{mark}' in line 3, as if it were missing.*another word"
    ):
        read(tmp_path, f"x,hat\n1,cap\n2,{mark}\n3,helmet\n", kinds=kinds)


@pytest.mark.parametrize("odd", ["two", "1_000", "10%", '"1,5"', "inf", "-Infinity", "1e", "0x10"])
def test_what_is_no_number_among_numbers_is_refused_unless_they_are_categories(tmp_path, odd):
    text = f"y,x\n0,1\n0,2\n0,{odd}\n"
    with pytest.raises(UntwineError) as error:
        read(tmp_path, text)
    said = odd.strip('"')
    assert f"column 'x' holds numbers, but in line 4 it has '{said}'; correct it, or say by kinds" in str(error.value)
    labels, space = read(tmp_path, text, kinds=("x=categorical",)).numbered(["x=categorical"])
    assert space.sizes == (1, 3) and space.kinds == ("ordered", "categorical")
    assert len(set(labels[:, 1].tolist())) == 3
    with pytest.raises(UntwineError, match="column 'x' holds numbers"):  # it is not about this column
        read(tmp_path, text, kinds=("y=categorical",))


@pytest.mark.parametrize("cells", [["1,5", "2,5", "3"], ["10%", "20%"], ["1_000", "2_000"], ["inf", "1"]])
def test_numbers_that_are_written_otherwise_are_no_texts(tmp_path, cells):
    with pytest.raises(UntwineError, match="column 'x' holds numbers, but in line 2 it has"):
        read(tmp_path, "\n".join(["x", *(f'"{cell}"' for cell in cells)]))


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        (["1", str(2**63)], 3),
        (["1", str(-(2**63) - 1)], 3),
        (["9" * 30, "9" * 29 + "8"], 2),
        (["1", "2", "9" * 5000], 4),
        (["0.5", str(2**60), str(2**60 + 1)], 4),  # which a column of decimals would round
    ],
)
def test_whole_numbers_that_do_not_fit_are_refused_rather_than_merged(tmp_path, cells, line):
    text = "\n".join(["x", *cells])
    why = r"a whole number that (64 bits do not hold|would be rounded)"
    with pytest.raises(UntwineError, match=rf"column 'x' has .* in line {line}, {why}") as error:
        read(tmp_path, text)
    assert len(str(error.value)) < 400 + len(str(tmp_path))
    assert read(tmp_path, text, kinds=("x=categorical",)).numbered(["x=categorical"])[1].sizes == (len(cells),)


def test_messages_are_short_even_where_names_and_cells_are_not(tmp_path):
    for text in (f"{'n' * 5000}\n1\n2\n{'t' * 5000}\n", f"{'n' * 5000},y\n,1\n", f"{'n' * 5000},{'n' * 5000}\n1,1\n"):
        with pytest.raises(UntwineError, match=r"5,000 characters") as error:
            read(tmp_path, text)
        assert len(str(error.value)) < 400 + len(str(tmp_path))


def test_rows_in_the_order_of_pictures_need_an_order_that_is_not_ambiguous():
    table = FactorTable("the table", ("x",), (np.arange(12),))
    plain, padded = ([f"{form(i)}.png" for i in range(1, 13)] for form in (str, "{:02}".format))
    assert table.of(sorted(padded)) is table
    with pytest.raises(UntwineError, match=r"ambiguous: row 2 is that of 10\.png .* of 2\.png if by .*column `file`"):
        table.of(sorted(plain))
    folders = [f"f{i}/a.png" for i in range(1, 13)]
    with pytest.raises(UntwineError, match=r"row 2 is that of f10/a\.png .* of f2/a\.png if"):
        table.of(sorted(folders))
    named = FactorTable("the table", ("x",), (np.arange(12),), tuple(plain))
    assert named.of(sorted(plain)).columns[0].tolist() == [int(name[:-4]) - 1 for name in sorted(plain)]
    mixed = [
        "1.png",
        "1-a.png",
        "1a.png",
        "B.png",
        "a.png",
        "a1/9.png",
        "a1b.png",
        "a1.png",
        "x01.png",
        "x1.png",
        "é",
        "z",
    ]
    in_order = sorted(mixed, key=lambda name: Path(name).parts)  # as folders are read
    assert table.of(in_order) is table


def test_other_files_are_refused(tmp_path):
    with pytest.raises(UntwineError, match=r"factors\.xlsx must be a \.csv, \.tsv, \.npy or \.npz file"):
        read(tmp_path, "x\n1\n", "factors.xlsx")
    with pytest.raises(UntwineError, match=r"cannot be read as a \.npy file"):
        read(tmp_path, "x\n1\n", "factors.npy")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(UntwineError, match=r"cannot be read as a \.npy file"):
        factor_table(tmp_path / "objects.npy")


def test_many_decimals_are_cut_into_bins_and_that_is_said(tmp_path):
    numbers = np.linspace(0, 1, MANY + 2) ** 9
    with pytest.warns(UserWarning, match=r"column 'x' has 66 different decimals from 0 to 1; it is cut into 20 bins"):
        labels, space = read(tmp_path, "\n".join(["x", *map(repr, numbers.tolist())])).numbered()
    # By counting, for each number, how many of the bins that hold something lie to the left of its own.
    own = [min(int(number * BINS), BINS - 1) for number in numbers]
    held = sorted(set(own))
    assert labels[:, 0].tolist() == [held.index(one) for one in own] and space.sizes == (len(held),)
    assert len(held) < BINS  # some are empty
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = read(tmp_path, "\n".join(["x", *map(repr, numbers[:MANY].tolist())])).numbered()
        whole = read(tmp_path, "\n".join(["x", *(str(i // 2) for i in range(400))])).numbered()
    assert few[1].sizes == (MANY,) and whole[1].sizes == (200,)


def test_a_column_that_tells_rows_apart_is_doubted(tmp_path):
    rows = "\n".join(f"{i},{i % 3}" for i in range(100))
    with pytest.warns(UserWarning, match="column 'id' differs in all of its 100 rows: if it is a number or a name"):
        read(tmp_path, f"id,x\n{rows}").numbered()


def test_constant_columns_are_factors_of_one_value(tmp_path):
    labels, space = read(tmp_path, "x,y\n1,a\n2,a\n").numbered()
    assert labels.tolist() == [[0, 0], [1, 0]] and space.sizes == (2, 1)


def test_decimals_that_are_categorical_are_not_cut_into_bins():
    values = np.arange(100) / 7
    table = FactorTable("the table", ("x",), (values,))
    with pytest.warns(UserWarning, match="differs in all of its 100 rows"):
        labels, space = table.numbered(["x=categorical"])
    assert space.sizes == (100,) and labels[:, 0].tolist() == list(range(100))
