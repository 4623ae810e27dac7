//! Values as both databases store them, and the mapping between record fields and columns.
//!
//! Every column is a 64-bit integer, a text or a double, in both databases; that is what lets one set of statements serve both.
//! A record's columns are listed once ([`record!`]) and both directions come from that list. No I/O here.
//! Invariant: `from_cell(to_cell(x)) == x` for every value that Slurm can show. Counts above `i64::MAX` are stored as
//! `i64::MAX`; NUL characters in text become U+FFFD, since Postgres refuses them and a record must never be refused.

use sluice_model::accounting::{AdminLevel, StepUsageRecord};
use sluice_model::ids::{JobId, StepId};
use sluice_model::time::UnixSeconds;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Text,
    Real,
}

/// One stored value; `None` is NULL.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Int(Option<i64>),
    Text(Option<String>),
    Real(Option<f64>),
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Self::Int(Some(i64::from(value)))
    }
}

impl From<UnixSeconds> for Cell {
    fn from(value: UnixSeconds) -> Self {
        Self::Int(Some(value.0))
    }
}

impl From<Option<UnixSeconds>> for Cell {
    fn from(value: Option<UnixSeconds>) -> Self {
        Self::Int(value.map(|time| time.0))
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(Some(storable(value)))
    }
}

/// Text that both databases accept.
fn storable(text: &str) -> String {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}")
    } else {
        text.to_owned()
    }
}

/// A field that fits one column. The error of `from_cell` says what was found.
pub(crate) trait Field: Sized {
    const KIND: Kind;
    fn to_cell(&self) -> Cell;
    fn from_cell(cell: Cell) -> Result<Self, String>;
}

fn int(cell: &Cell) -> Result<i64, String> {
    match cell {
        Cell::Int(Some(value)) => Ok(*value),
        other => Err(format!("a number was expected, found {other:?}")),
    }
}

fn text(cell: Cell) -> Result<String, String> {
    match cell {
        Cell::Text(Some(value)) => Ok(value),
        other => Err(format!("a text was expected, found {other:?}")),
    }
}

macro_rules! int_field {
    ($($type:ty),*) => {$(
        impl Field for $type {
            const KIND: Kind = Kind::Int;
            fn to_cell(&self) -> Cell {
                Cell::Int(Some(i64::try_from(*self).unwrap_or(i64::MAX)))
            }
            fn from_cell(cell: Cell) -> Result<Self, String> {
                let value = int(&cell)?;
                Self::try_from(value).map_err(|_| format!("{value} is out of range"))
            }
        }
        impl Field for Option<$type> {
            const KIND: Kind = Kind::Int;
            fn to_cell(&self) -> Cell {
                Cell::Int(self.map(|value| i64::try_from(value).unwrap_or(i64::MAX)))
            }
            fn from_cell(cell: Cell) -> Result<Self, String> {
                if cell == Cell::Int(None) { Ok(None) } else { <$type>::from_cell(cell).map(Some) }
            }
        }
    )*};
}

int_field!(u32, u64, i32, i64);

macro_rules! newtype_field {
    ($($type:ident($inner:ty)),*) => {$(
        impl Field for $type {
            const KIND: Kind = Kind::Int;
            fn to_cell(&self) -> Cell {
                self.0.to_cell()
            }
            fn from_cell(cell: Cell) -> Result<Self, String> {
                <$inner>::from_cell(cell).map($type)
            }
        }
        impl Field for Option<$type> {
            const KIND: Kind = Kind::Int;
            fn to_cell(&self) -> Cell {
                self.map(|value| value.0).to_cell()
            }
            fn from_cell(cell: Cell) -> Result<Self, String> {
                Option::<$inner>::from_cell(cell).map(|value| value.map($type))
            }
        }
    )*};
}

newtype_field!(JobId(u32), UnixSeconds(i64));

impl Field for bool {
    const KIND: Kind = Kind::Int;
    fn to_cell(&self) -> Cell {
        Cell::Int(Some(i64::from(*self)))
    }
    fn from_cell(cell: Cell) -> Result<Self, String> {
        int(&cell).map(|value| value != 0)
    }
}

impl Field for String {
    const KIND: Kind = Kind::Text;
    fn to_cell(&self) -> Cell {
        Cell::from(self.as_str())
    }
    fn from_cell(cell: Cell) -> Result<Self, String> {
        text(cell)
    }
}

impl Field for f64 {
    const KIND: Kind = Kind::Real;
    fn to_cell(&self) -> Cell {
        Cell::Real(Some(*self))
    }
    fn from_cell(cell: Cell) -> Result<Self, String> {
        match cell {
            Cell::Real(Some(value)) => Ok(value),
            other => Err(format!("a number was expected, found {other:?}")),
        }
    }
}

impl Field for Option<f64> {
    const KIND: Kind = Kind::Real;
    fn to_cell(&self) -> Cell {
        Cell::Real(*self)
    }
    fn from_cell(cell: Cell) -> Result<Self, String> {
        match cell {
            Cell::Real(value) => Ok(value),
            other => Err(format!("a number was expected, found {other:?}")),
        }
    }
}

/// Names are stored as a list separated by commas: Slurm's names contain none.
impl Field for Vec<String> {
    const KIND: Kind = Kind::Text;
    fn to_cell(&self) -> Cell {
        Cell::from(self.join(",").as_str())
    }
    fn from_cell(cell: Cell) -> Result<Self, String> {
        Ok(split_names(&text(cell)?))
    }
}

impl Field for Option<Vec<String>> {
    const KIND: Kind = Kind::Text;
    fn to_cell(&self) -> Cell {
        Cell::Text(self.as_ref().map(|names| storable(&names.join(","))))
    }
    fn from_cell(cell: Cell) -> Result<Self, String> {
        match cell {
            Cell::Text(names) => Ok(names.map(|names| split_names(&names))),
            other => Err(format!("a text was expected, found {other:?}")),
        }
    }
}

fn split_names(list: &str) -> Vec<String> {
    list.split(',')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

impl Field for StepId {
    const KIND: Kind = Kind::Int;
    /// Signed, so that the special steps have small numbers that look the same in every tool: batch is -5.
    fn to_cell(&self) -> Cell {
        Cell::Int(Some(i64::from(self.number().cast_signed())))
    }
    fn from_cell(cell: Cell) -> Result<Self, String> {
        let value = int(&cell)?;
        i32::try_from(value)
            .ok()
            .and_then(|number| Self::from_number(number.cast_unsigned()))
            .ok_or_else(|| format!("{value} is no step"))
    }
}

/// What a step used is shown, never searched, so it is one JSON text.
impl Field for StepUsageRecord {
    const KIND: Kind = Kind::Text;
    fn to_cell(&self) -> Cell {
        // A plain structure of numbers and texts always has a JSON form.
        Cell::from(serde_json::to_string(self).unwrap_or_default().as_str())
    }
    fn from_cell(cell: Cell) -> Result<Self, String> {
        serde_json::from_str(&text(cell)?).map_err(|error| error.to_string())
    }
}

/// Slurm's numbers: 1 none, 2 operator, 3 administrator.
pub(crate) fn admin_level_number(level: AdminLevel) -> i64 {
    match level {
        AdminLevel::None => 1,
        AdminLevel::Operator => 2,
        AdminLevel::Administrator => 3,
    }
}

impl Field for AdminLevel {
    const KIND: Kind = Kind::Int;
    fn to_cell(&self) -> Cell {
        Cell::Int(Some(admin_level_number(*self)))
    }
    fn from_cell(cell: Cell) -> Result<Self, String> {
        match int(&cell)? {
            0 | 1 => Ok(Self::None),
            2 => Ok(Self::Operator),
            3 => Ok(Self::Administrator),
            other => Err(format!("{other} is no admin level")),
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

/// A table as a record sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    pub name: &'static str,
    /// Names of the key's columns.
    pub key: &'static [&'static str],
    /// The columns of the record, in the order of its cells.
    pub columns: &'static [Column],
    /// Columns whose stored value stays when the new one is NULL.
    pub keep: &'static [&'static str],
}

impl Table {
    /// `a, b, c`, each with the prefix.
    pub(crate) fn column_list(&self, prefix: &str) -> String {
        let names: Vec<String> = self
            .columns
            .iter()
            .map(|column| format!("{prefix}{}", column.name))
            .collect();
        names.join(", ")
    }
}

/// A record that has a table.
pub(crate) trait Record: Sized {
    const TABLE: Table;
    /// Its values, in the order of the table's columns.
    fn cells(&self) -> Vec<Cell>;
    /// The record from values in that order.
    fn from_cells(cells: Vec<Cell>) -> crate::Result<Self>;
}

/// Lists the columns of a record: `field.path => "column": Type`. Fields that are kept elsewhere get their value after `rest`.
macro_rules! record {
    (
        $record:ty, table $table:literal, key [$($key:literal),*], keep [$($keep:literal),*],
        columns { $($field:ident => $column:literal : $type:ty),* $(,)? }
        nested { $($group:ident : $group_type:ident { $($inner:ident => $inner_column:literal : $inner_type:ty),* $(,)? })? }
        rest { $($rest:ident : $value:expr),* $(,)? }
    ) => {
        impl $crate::cell::Record for $record {
            const TABLE: $crate::cell::Table = $crate::cell::Table {
                name: $table,
                key: &[$($key),*],
                columns: &[
                    $($crate::cell::Column { name: $column, kind: <$type as $crate::cell::Field>::KIND },)*
                    $($($crate::cell::Column { name: $inner_column, kind: <$inner_type as $crate::cell::Field>::KIND },)*)?
                ],
                keep: &[$($keep),*],
            };

            fn cells(&self) -> Vec<$crate::cell::Cell> {
                vec![
                    $(<$type as $crate::cell::Field>::to_cell(&self.$field),)*
                    $($(<$inner_type as $crate::cell::Field>::to_cell(&self.$group.$inner),)*)?
                ]
            }

            fn from_cells(cells: Vec<$crate::cell::Cell>) -> $crate::Result<Self> {
                let mut cells = cells.into_iter();
                Ok(Self {
                    $($field: $crate::cell::take::<$type>(&mut cells, $table, $column)?,)*
                    $($group: $group_type { $($inner: $crate::cell::take::<$inner_type>(&mut cells, $table, $inner_column)?),* },)?
                    $($rest: $value,)*
                })
            }
        }
    };
}
pub(crate) use record;

/// The next value as a field.
pub(crate) fn take<F: Field>(
    cells: &mut std::vec::IntoIter<Cell>,
    table: &'static str,
    column: &'static str,
) -> crate::Result<F> {
    let cell = cells.next().unwrap_or(Cell::Int(None));
    F::from_cell(cell).map_err(|reason| crate::AccountingError::Value {
        table,
        column,
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<F: Field + PartialEq + std::fmt::Debug>(value: F) {
        assert_eq!(F::from_cell(value.to_cell()).as_ref(), Ok(&value));
    }

    /// A wrong mapping would change history silently.
    #[test]
    fn fields_come_back_as_they_were() {
        round_trip(u32::MAX);
        round_trip(-9_i32);
        round_trip(Some(7_u32));
        round_trip(None::<u32>);
        round_trip(JobId(67_000_000));
        round_trip(Some(UnixSeconds(1_796_013_669)));
        round_trip(None::<UnixSeconds>);
        round_trip(StepId::Batch);
        round_trip(StepId::Num(0));
        round_trip(AdminLevel::Operator);
        round_trip(vec!["high".to_owned(), "normal".to_owned()]);
        round_trip(None::<Vec<String>>);
        round_trip(Some(Vec::<String>::new()));
        round_trip(0.5_f64);
    }

    /// Postgres stores no NUL; a job with one in its name must still be recorded.
    #[test]
    fn text_with_nul_is_made_storable() {
        assert_eq!(
            "a\0b".to_owned().to_cell(),
            Cell::Text(Some("a\u{fffd}b".to_owned()))
        );
    }

    /// Slurm shows the batch step as 4294967291, that is -5.
    #[test]
    fn special_steps_are_negative() {
        assert_eq!(StepId::Batch.to_cell(), Cell::Int(Some(-5)));
        assert_eq!(StepId::Extern.to_cell(), Cell::Int(Some(-4)));
    }
}
