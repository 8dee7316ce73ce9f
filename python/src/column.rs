//! Values of a column on their way to Python.

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict};

/// A column of some rows.
pub enum Column {
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl Column {
    /// Its type in numpy's words, and its values as bytes, which `numpy.frombuffer` takes as they are.
    fn into_python(self, py: Python<'_>) -> PyResult<(&'static str, Bound<'_, PyByteArray>)> {
        Ok(match self {
            Self::I32(values) => ("int32", bytes(py, &values, i32::to_ne_bytes)?),
            Self::I64(values) => ("int64", bytes(py, &values, i64::to_ne_bytes)?),
            Self::U8(values) => ("uint8", bytes(py, &values, u8::to_ne_bytes)?),
            Self::U32(values) => ("uint32", bytes(py, &values, u32::to_ne_bytes)?),
            Self::U64(values) => ("uint64", bytes(py, &values, u64::to_ne_bytes)?),
        })
    }
}

/// A bytearray, and not bytes: numpy may write to what it lies over.
fn bytes<'py, T: Copy, const N: usize>(
    py: Python<'py>,
    values: &[T],
    encode: impl Fn(T) -> [u8; N],
) -> PyResult<Bound<'py, PyByteArray>> {
    PyByteArray::new_with(py, values.len() * N, |into| {
        for (into, value) in into.as_chunks_mut::<N>().0.iter_mut().zip(values) {
            *into = encode(*value);
        }
        Ok(())
    })
}

/// A dictionary of the columns by their names.
pub fn into_python(py: Python<'_>, columns: Vec<(String, Column)>) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(py);
    for (name, column) in columns {
        found.set_item(name, column.into_python(py)?)?;
    }
    Ok(found)
}
