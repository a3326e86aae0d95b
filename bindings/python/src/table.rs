//! Columns whose memory Python uses without a copy: as Arrow through its C stream interface, as
//! NumPy arrays through the array interface.

use crate::errors::internal;
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt16Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator,
    StringArray, UInt16Array, UInt32Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::sync::Arc;

/// One column, while a table is built.
pub(crate) enum Values {
    Text(Vec<String>),
    Whole(Vec<i64>),
    /// Numbers of which some may be missing.
    Numbers(Vec<Option<f64>>),
    MaybeWhole(Vec<Option<i64>>),
    Truth(Vec<Option<bool>>),
}

impl Values {
    fn array(self) -> (ArrayRef, bool) {
        match self {
            Values::Text(all) => (Arc::new(StringArray::from(all)), false),
            Values::Whole(all) => (Arc::new(Int64Array::from(all)), false),
            Values::Numbers(all) => (Arc::new(Float64Array::from(all)), true),
            Values::MaybeWhole(all) => (Arc::new(Int64Array::from(all)), true),
            Values::Truth(all) => (Arc::new(arrow_array::BooleanArray::from(all)), true),
        }
    }
}

/// A table by columns, in one piece or several.
#[pyclass(frozen, module = "falaj._falaj")]
pub(crate) struct Columns {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Columns {
    /// Builds a table from columns of equal length.
    pub(crate) fn new(columns: Vec<(String, Values)>) -> PyResult<Columns> {
        let arrays = columns.into_iter().map(|(name, values)| {
            let (array, nullable) = values.array();
            (name, array, nullable)
        });
        let batch = RecordBatch::try_from_iter_with_nullable(arrays).map_err(internal)?;
        Ok(Columns { schema: batch.schema(), batches: vec![batch] })
    }

    /// A table of packets, with a piece for each replication.
    pub(crate) fn of_packets(flows: &[String], all: Vec<Packets>) -> PyResult<Columns> {
        let names: ArrayRef = Arc::new(StringArray::from(flows.to_vec()));
        let coded = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8));
        let field = |name: &str, of: DataType| Field::new(name, of, false);
        let schema = Arc::new(Schema::new(vec![
            field("replication", DataType::UInt16),
            field("flow", coded),
            field("bytes", DataType::UInt32),
            field("arrival_ns", DataType::Int64),
            field("start_ns", DataType::Int64),
            field("end_ns", DataType::Int64),
        ]));
        let batch = |(n, packets): (usize, Packets)| {
            let keys = UInt32Array::from(packets.flow);
            let flow = DictionaryArray::<UInt32Type>::try_new(keys, Arc::clone(&names))
                .map_err(internal)?;
            let replication = vec![u16::try_from(n).unwrap_or(u16::MAX); packets.bytes.len()];
            let columns: Vec<ArrayRef> = vec![
                Arc::new(UInt16Array::from(replication)),
                Arc::new(flow),
                Arc::new(UInt32Array::from(packets.bytes)),
                Arc::new(Int64Array::from(packets.arrival)),
                Arc::new(Int64Array::from(packets.start)),
                Arc::new(Int64Array::from(packets.end)),
            ];
            RecordBatch::try_new(Arc::clone(&schema), columns).map_err(internal)
        };
        let batches = all.into_iter().enumerate().map(batch).collect::<PyResult<_>>()?;
        Ok(Columns { schema, batches })
    }

    fn pieces(&self, name: &str) -> PyResult<Vec<ArrayRef>> {
        let index = self.schema.index_of(name).map_err(|_| PyKeyError::new_err(name.to_owned()))?;
        Ok(self.batches.iter().map(|batch| Arc::clone(batch.column(index))).collect())
    }
}

/// Packets of one replication, by columns.
#[derive(Default)]
pub(crate) struct Packets {
    pub(crate) flow: Vec<u32>,
    pub(crate) bytes: Vec<u32>,
    pub(crate) arrival: Vec<i64>,
    pub(crate) start: Vec<i64>,
    pub(crate) end: Vec<i64>,
}

/// The pieces of a column. For a dictionary-encoded column these are the keys, and the second value
/// has the dictionary's strings.
type ColumnPieces<'py> = (Vec<Bound<'py, PyAny>>, Option<Vec<String>>);

#[pymethods]
impl Columns {
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The names of the columns, in order.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The pieces of a column: a piece is a `Column` if NumPy can use the memory, otherwise a list.
    /// The pieces of a dictionary-encoded column are its keys, and the second value has the
    /// dictionary's strings. The second value is None for other columns.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<ColumnPieces<'py>> {
        let mut texts = None;
        let mut pieces = Vec::new();
        for piece in self.pieces(name)? {
            let piece = match piece.as_any_dictionary_opt() {
                Some(coded) => {
                    let meant = coded.values().as_string::<i32>().iter();
                    texts = Some(meant.map(|text| text.unwrap_or_default().to_owned()).collect());
                    coded.keys().slice(0, piece.len())
                }
                None => piece,
            };
            pieces.push(match piece.data_type() {
                DataType::Utf8 => {
                    piece.as_string::<i32>().iter().collect::<Vec<_>>().into_pyobject(py)?
                }
                DataType::Boolean => {
                    piece.as_boolean().iter().collect::<Vec<_>>().into_pyobject(py)?
                }
                DataType::Float64 if piece.null_count() > 0 => piece
                    .as_primitive::<Float64Type>()
                    .iter()
                    .collect::<Vec<_>>()
                    .into_pyobject(py)?,
                DataType::Int64 if piece.null_count() > 0 => piece
                    .as_primitive::<Int64Type>()
                    .iter()
                    .collect::<Vec<_>>()
                    .into_pyobject(py)?,
                _ => Bound::new(py, Column(piece))?.into_any(),
            });
        }
        Ok((pieces, texts))
    }

    /// The Arrow PyCapsule interface. A requested schema is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        PyCapsule::new_with_value(
            py,
            FFI_ArrowArrayStream::new(Box::new(reader)),
            c"arrow_array_stream",
        )
    }
}

/// A column's memory, for NumPy; an array that uses it keeps it alive.
#[pyclass(frozen, module = "falaj._falaj")]
pub(crate) struct Column(ArrayRef);

#[pymethods]
impl Column {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// See <https://numpy.org/doc/stable/reference/arrays.interface.html>; read only.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let address = |values: *const u8| values as usize;
        let (kind, at) = match self.0.data_type() {
            DataType::Float64 => {
                ("<f8", address(self.0.as_primitive::<Float64Type>().values().as_ptr().cast()))
            }
            DataType::Int64 => {
                ("<i8", address(self.0.as_primitive::<Int64Type>().values().as_ptr().cast()))
            }
            DataType::UInt32 => {
                ("<u4", address(self.0.as_primitive::<UInt32Type>().values().as_ptr().cast()))
            }
            DataType::UInt16 => {
                ("<u2", address(self.0.as_primitive::<UInt16Type>().values().as_ptr().cast()))
            }
            other => return Err(internal(format!("no array of NumPy is {other}"))),
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", kind)?;
        interface.set_item("shape", (self.0.len(),))?;
        interface.set_item("data", (at, true))?;
        Ok(interface)
    }
}
