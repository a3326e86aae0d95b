//! Writes tables as files.

use super::FileFormat;
use anyhow::Result;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Values of a column in consecutive rows.
pub(super) enum ColumnValues {
    Whole(Vec<Option<i64>>),
    Number(Vec<Option<f64>>),
    Text(Vec<String>),
}

impl ColumnValues {
    fn len(&self) -> usize {
        match self {
            ColumnValues::Whole(all) => all.len(),
            ColumnValues::Number(all) => all.len(),
            ColumnValues::Text(all) => all.len(),
        }
    }

    fn text(&self, n: usize) -> String {
        match self {
            ColumnValues::Whole(all) => all[n].map_or(String::new(), |value| value.to_string()),
            ColumnValues::Number(all) => all[n].map_or(String::new(), |value| value.to_string()),
            ColumnValues::Text(all) => all[n].clone(),
        }
    }

    /// Takes the values and leaves an empty column of the same type.
    fn taken(&mut self) -> ColumnValues {
        match self {
            ColumnValues::Whole(all) => ColumnValues::Whole(std::mem::take(all)),
            ColumnValues::Number(all) => ColumnValues::Number(std::mem::take(all)),
            ColumnValues::Text(all) => ColumnValues::Text(std::mem::take(all)),
        }
    }
}

/// Rows not written yet.
pub(super) type PendingRows = Vec<(&'static str, ColumnValues)>;

/// Number of pending rows at which they are written.
const LINES: usize = 65_536;

/// A table file being written.
pub(super) struct TableWriter {
    to: TableSink,
    pub(super) columns: PendingRows,
}

enum TableSink {
    Csv(Box<csv::Writer<BufWriter<File>>>),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::File>),
}

impl TableWriter {
    /// Creates the file with these columns, which are empty.
    pub(super) fn new(path: &Path, form: FileFormat, columns: PendingRows) -> Result<TableWriter> {
        let file = BufWriter::new(File::create(path)?);
        let to = match form {
            #[cfg(feature = "parquet")]
            FileFormat::Parquet => {
                TableSink::Parquet(Box::new(parquet::File::new(file, &columns)?))
            }
            _ => {
                let mut csv = csv::Writer::from_writer(file);
                csv.write_record(columns.iter().map(|(name, _)| name))?;
                TableSink::Csv(Box::new(csv))
            }
        };
        Ok(TableWriter { to, columns })
    }

    /// Writes the pending rows, if there are at least `LINES` of them.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.columns[0].1.len() < LINES { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<()> {
        let columns: Vec<ColumnValues> =
            self.columns.iter_mut().map(|(_, values)| values.taken()).collect();
        match &mut self.to {
            TableSink::Csv(csv) => {
                for n in 0..columns[0].len() {
                    csv.write_record(columns.iter().map(|column| column.text(n)))?;
                }
            }
            #[cfg(feature = "parquet")]
            TableSink::Parquet(parquet) => parquet.write(&columns)?,
        }
        Ok(())
    }

    /// Writes the remaining rows and closes the file.
    pub(super) fn finish(mut self) -> Result<()> {
        self.write()?;
        match self.to {
            TableSink::Csv(mut csv) => csv.flush()?,
            #[cfg(feature = "parquet")]
            TableSink::Parquet(parquet) => parquet.finish()?,
        }
        Ok(())
    }
}

#[cfg(feature = "parquet")]
mod parquet {
    //! Writes Parquet, one row group for each block of rows.

    use super::{ColumnValues, PendingRows};
    use anyhow::Result;
    use parquet::basic::{Compression, ConvertedType, Repetition, Type as Kind};
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::types::Type;
    use std::io::BufWriter;
    use std::sync::Arc;

    pub(super) struct File(SerializedFileWriter<BufWriter<std::fs::File>>);

    impl File {
        pub(super) fn new(file: BufWriter<std::fs::File>, columns: &PendingRows) -> Result<File> {
            let field = |(name, values): &(&'static str, ColumnValues)| {
                let (kind, repetition) = match values {
                    ColumnValues::Whole(_) => (Kind::INT64, Repetition::OPTIONAL),
                    ColumnValues::Number(_) => (Kind::DOUBLE, Repetition::OPTIONAL),
                    ColumnValues::Text(_) => (Kind::BYTE_ARRAY, Repetition::REQUIRED),
                };
                let field = Type::primitive_type_builder(name, kind).with_repetition(repetition);
                let text = kind == Kind::BYTE_ARRAY;
                let field =
                    if text { field.with_converted_type(ConvertedType::UTF8) } else { field };
                Ok(Arc::new(field.build()?))
            };
            let fields: Vec<Arc<Type>> = columns.iter().map(field).collect::<Result<_>>()?;
            let schema = Type::group_type_builder("falaj").with_fields(fields).build()?;
            let properties =
                WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            Ok(File(SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?))
        }

        pub(super) fn write(&mut self, columns: &[ColumnValues]) -> Result<()> {
            if columns[0].len() == 0 {
                return Ok(());
            }
            let mut group = self.0.next_row_group()?;
            for values in columns {
                let Some(mut column) = group.next_column()? else { break };
                // The values present, and the definition levels, which mark the rows with a value.
                match values {
                    ColumnValues::Whole(all) => {
                        let there: Vec<i64> = all.iter().copied().flatten().collect();
                        column.typed::<Int64Type>().write_batch(
                            &there,
                            Some(&levels(all)),
                            None,
                        )?;
                    }
                    ColumnValues::Number(all) => {
                        let there: Vec<f64> = all.iter().copied().flatten().collect();
                        column.typed::<DoubleType>().write_batch(
                            &there,
                            Some(&levels(all)),
                            None,
                        )?;
                    }
                    ColumnValues::Text(all) => {
                        let there: Vec<ByteArray> =
                            all.iter().map(|text| text.as_str().into()).collect();
                        column.typed::<ByteArrayType>().write_batch(&there, None, None)?;
                    }
                }
                column.close()?;
            }
            group.close()?;
            Ok(())
        }

        pub(super) fn finish(self) -> Result<()> {
            self.0.close()?;
            Ok(())
        }
    }

    fn levels<T>(all: &[Option<T>]) -> Vec<i16> {
        all.iter().map(|value| i16::from(value.is_some())).collect()
    }
}
