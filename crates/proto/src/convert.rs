//! Conversions between generated messages and the model's records.
//!
//! One line per field serves both directions (see `wire_message!`), and leaving a field out does not compile. Scalars of
//! the model travel as plain numbers in the units of the model: memory in MiB, times in seconds since the epoch, limits in
//! minutes. A conversion from the wire checks; one to the wire cannot fail. Nothing is filled in or corrected here.

mod accounting;
mod diagnostics;
mod explanation;
mod job;
mod node;
mod partition;
mod quantities;
mod reservation;
mod step;

use std::collections::BTreeMap;

/// A type of the model that has a form on the wire.
pub trait Wire: Sized {
    /// The generated message, or the scalar, that carries it.
    type Message;

    /// Its form on the wire.
    fn into_wire(self) -> Self::Message;

    /// Checks a value that came in.
    ///
    /// # Errors
    /// When the model cannot hold it; the error names the field.
    fn from_wire(message: Self::Message) -> Result<Self, ConvertError>;
}

/// A message that cannot become a record: which field, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "field {path} of the message is not usable: {problem}; the other side may run a different version"
)]
pub struct ConvertError {
    path: String,
    problem: Problem,
}

/// Why a field cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A message that must be there is not.
    #[error("it is missing")]
    Missing,
    /// An enum number that this version does not know, or 0.
    #[error("{kind} has no value {number}")]
    UnknownEnum {
        /// Type of the enum.
        kind: &'static str,
        /// What came.
        number: i64,
    },
    /// A number outside the range of the model's type.
    #[error("{number} is not a {kind}")]
    OutOfRange {
        /// What it should be.
        kind: &'static str,
        /// What came.
        number: i64,
    },
    /// A text that should be one of the model's words.
    #[error("`{text}` is not a {kind}")]
    BadText {
        /// What it should be.
        kind: &'static str,
        /// What came.
        text: String,
    },
}

impl ConvertError {
    /// An error of the value itself; the fields around it are added by [`Self::inside`].
    #[must_use]
    pub fn new(problem: Problem) -> Self {
        Self {
            path: String::new(),
            problem,
        }
    }

    /// The same error, seen from the message that holds `field`.
    #[must_use]
    pub fn inside(mut self, field: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') {
            ""
        } else {
            "."
        };
        self.path = format!("{field}{dot}{}", self.path);
        self
    }

    /// Where it is: `JobInfo.description.gres_per_node[1].count`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong there.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl From<ConvertError> for tonic::Status {
    fn from(error: ConvertError) -> Self {
        tonic::Status::invalid_argument(error.to_string())
    }
}

/// A list wrapped into a message because it may be absent.
pub(crate) trait ListMessage {
    /// What is in the list.
    type Item;

    /// Wraps.
    fn from_items(items: Vec<Self::Item>) -> Self;

    /// Unwraps.
    fn into_items(self) -> Vec<Self::Item>;
}

impl<T: Wire> Wire for Option<T> {
    type Message = Option<T::Message>;

    fn into_wire(self) -> Self::Message {
        self.map(T::into_wire)
    }

    fn from_wire(message: Self::Message) -> Result<Self, ConvertError> {
        message.map(T::from_wire).transpose()
    }
}

impl<T: Wire> Wire for Vec<T> {
    type Message = Vec<T::Message>;

    fn into_wire(self) -> Self::Message {
        self.into_iter().map(T::into_wire).collect()
    }

    fn from_wire(message: Self::Message) -> Result<Self, ConvertError> {
        message
            .into_iter()
            .enumerate()
            .map(|(index, item)| {
                T::from_wire(item).map_err(|error| error.inside(&format!("[{index}]")))
            })
            .collect()
    }
}

impl<V: Wire> Wire for BTreeMap<String, V> {
    type Message = BTreeMap<String, V::Message>;

    fn into_wire(self) -> Self::Message {
        self.into_iter()
            .map(|(key, value)| (key, value.into_wire()))
            .collect()
    }

    fn from_wire(message: Self::Message) -> Result<Self, ConvertError> {
        message
            .into_iter()
            .map(|(key, value)| match V::from_wire(value) {
                Ok(value) => Ok((key, value)),
                Err(error) => Err(error.inside(&format!("[{key}]"))),
            })
            .collect()
    }
}

/// One field of a record to its form on the wire. `need` and `or_default`: the message field is an `Option` of a message.
/// `list`: an optional list, wrapped into a message.
macro_rules! field_into_wire {
    ($value:expr) => {
        $crate::convert::Wire::into_wire($value)
    };
    (need $value:expr) => {
        Some($crate::convert::Wire::into_wire($value))
    };
    (or_default $value:expr) => {
        Some($crate::convert::Wire::into_wire($value))
    };
    (list $value:expr) => {
        $value.map(|items| {
            $crate::convert::ListMessage::from_items($crate::convert::Wire::into_wire(items))
        })
    };
}

/// The way back. A missing `need` is an error, a missing `or_default` is the type's default (nothing of it).
macro_rules! field_from_wire {
    ($value:expr) => {
        $crate::convert::Wire::from_wire($value)
    };
    (need $value:expr) => {
        match $value {
            Some(message) => $crate::convert::Wire::from_wire(message),
            None => Err($crate::convert::ConvertError::new(
                $crate::convert::Problem::Missing,
            )),
        }
    };
    (or_default $value:expr) => {
        match $value {
            Some(message) => $crate::convert::Wire::from_wire(message),
            None => Ok(Default::default()),
        }
    };
    (list $value:expr) => {
        $crate::convert::Wire::from_wire($value.map($crate::convert::ListMessage::into_items))
    };
}

/// Both directions for a record whose message has the same field names; also `From` and `TryFrom`.
macro_rules! wire_message {
    ($record:ident => $message:ident { $($([$how:ident])? $field:ident,)+ }) => {
        impl $crate::convert::Wire for $record {
            type Message = $crate::v1::$message;

            fn into_wire(self) -> Self::Message {
                $crate::v1::$message {
                    $($field: field_into_wire!($($how)? self.$field),)+
                }
            }

            fn from_wire(message: Self::Message) -> Result<Self, $crate::convert::ConvertError> {
                Ok(Self {
                    $($field: field_from_wire!($($how)? message.$field)
                        .map_err(|error: $crate::convert::ConvertError| error.inside(stringify!($field)))?,)+
                })
            }
        }

        wire_std!($record => $message);
    };
}

/// `From` and `TryFrom` on top of [`Wire`]; errors begin with the record's name.
macro_rules! wire_std {
    ($record:ident => $message:ident) => {
        impl From<$record> for $crate::v1::$message {
            fn from(record: $record) -> Self {
                $crate::convert::Wire::into_wire(record)
            }
        }

        impl TryFrom<$crate::v1::$message> for $record {
            type Error = $crate::convert::ConvertError;

            fn try_from(message: $crate::v1::$message) -> Result<Self, Self::Error> {
                $crate::convert::Wire::from_wire(message).map_err(
                    |error: $crate::convert::ConvertError| error.inside(stringify!($record)),
                )
            }
        }
    };
}

/// Both directions for an enum without data whose message has the same variants and `UNSPECIFIED` = 0.
macro_rules! wire_enum {
    ($record:ident => $message:ident { $($variant:ident),+ $(,)? }) => {
        impl $crate::convert::Wire for $record {
            type Message = i32;

            fn into_wire(self) -> i32 {
                $crate::v1::$message::from(self) as i32
            }

            fn from_wire(number: i32) -> Result<Self, $crate::convert::ConvertError> {
                match $crate::v1::$message::try_from(number) {
                    $(Ok($crate::v1::$message::$variant) => Ok(Self::$variant),)+
                    Ok($crate::v1::$message::Unspecified) | Err(_) => {
                        Err($crate::convert::ConvertError::new($crate::convert::Problem::UnknownEnum {
                            kind: stringify!($message),
                            number: i64::from(number),
                        }))
                    }
                }
            }
        }

        impl From<$record> for $crate::v1::$message {
            fn from(record: $record) -> Self {
                match record {
                    $($record::$variant => Self::$variant,)+
                }
            }
        }

        impl TryFrom<$crate::v1::$message> for $record {
            type Error = $crate::convert::ConvertError;

            fn try_from(message: $crate::v1::$message) -> Result<Self, Self::Error> {
                $crate::convert::Wire::from_wire(message as i32)
            }
        }
    };
}

pub(crate) use {field_from_wire, field_into_wire, wire_enum, wire_message, wire_std};
