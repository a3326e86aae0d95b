"""Tables of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional

import numpy as np

from . import _falaj

if TYPE_CHECKING:
    import pandas
    import polars


class Table:
    """Columns of equal length. Arrow and Polars use their memory without a copy; NumPy and pandas do so for columns of numbers
    in one piece without missing values.

    Any library with the Arrow PyCapsule interface accepts it: `polars.DataFrame(table)`,
    `pyarrow.table(table)`, `duckdb.sql("from table")`.
    """

    def __init__(self, columns: _falaj.Columns) -> None:
        self._columns = columns

    @property
    def columns(self) -> List[str]:
        """The names of the columns, in order."""
        return self._columns.names

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        """A column of shape `(len(table),)`; read-only if it is the table's memory itself.

        Numbers are `int64`, `float64`, `uint32` or `uint16`; if some are missing, `float64` with NaN. Texts are
        objects. KeyError if there is no such column.
        """
        pieces, texts = self._columns.column(name)
        arrays = [_array(piece) for piece in pieces]
        array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return array if texts is None else np.asarray(texts, dtype=object)[array]

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """The Arrow PyCapsule interface; a requested schema is ignored, as the interface allows."""
        return self._columns.__arrow_c_stream__(requested_schema)

    def to_numpy(self) -> Dict[str, np.ndarray[Any, Any]]:
        """Returns each column by its name, as `table[name]` does."""
        return {name: self[name] for name in self.columns}

    def to_dicts(self) -> List[Dict[str, Any]]:
        """Returns a dict for each row; missing values are None."""
        columns = [_plain(self[name]) for name in self.columns]
        return [dict(zip(self.columns, row)) for row in zip(*columns)]

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a pandas data frame, with the memory that `table[name]` uses; the column `flow` of packets is categorical. ImportError without pandas."""
        import pandas

        series: Dict[str, Any] = {}
        for name in self.columns:
            pieces, texts = self._columns.column(name)
            arrays = [_array(piece) for piece in pieces]
            array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
            if texts is None:
                series[name] = pandas.Series(array, copy=False)
            else:
                small = np.int8 if len(texts) < 128 else np.int32
                series[name] = pandas.Series(_categorical(array.astype(small), texts), copy=False)
        return pandas.DataFrame(series, copy=False)

    def to_polars(self) -> polars.DataFrame:
        """Returns a Polars data frame on the same memory. ImportError without Polars."""
        import polars

        return polars.DataFrame(self)

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        """The first rows as HTML, for a notebook."""
        from html import escape

        shown = 50
        columns = [_plain(self[name][:shown]) for name in self.columns]
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        cell = "<td>{}</td>".format
        rows = ["<tr>" + "".join(cell(escape(_short(value))) for value in row) + "</tr>" for row in zip(*columns)]
        more = f"<p>{len(self) - shown} more rows</p>" if len(self) > shown else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}"


def _array(piece: Any) -> np.ndarray[Any, Any]:
    if not isinstance(piece, list):
        return np.asarray(piece)
    if any(isinstance(value, str) for value in piece):
        return np.asarray(piece, dtype=object)
    if any(isinstance(value, bool) for value in piece):
        return np.asarray(piece, dtype=object if None in piece else bool)
    return np.asarray([np.nan if value is None else value for value in piece], dtype=float)


def _categorical(codes: np.ndarray[Any, Any], texts: List[str]) -> pandas.Categorical:
    import pandas

    dtype = pandas.CategoricalDtype(texts)
    # Codes are in range, so no check is needed.
    try:
        return pandas.Categorical.from_codes(codes, dtype=dtype, validate=False)
    except TypeError:
        return pandas.Categorical.from_codes(codes, dtype=dtype)


def _plain(array: np.ndarray[Any, Any]) -> List[Any]:
    return [None if isinstance(value, float) and value != value else value for value in array.tolist()]


def _short(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
