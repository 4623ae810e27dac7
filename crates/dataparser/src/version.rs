//! Which data parser a caller asks for.
//!
//! The number selects what `meta.plugin.data_parser` says; fields are those of the newest parser for all of them.

use std::fmt;
use std::str::FromStr;

/// A data parser, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum DataParser {
    /// v0.0.42
    V42,
    /// v0.0.43
    V43,
    /// v0.0.44
    V44,
    /// v0.0.45
    V45,
    /// v0.0.46
    #[default]
    V46,
}

impl DataParser {
    /// All of them, oldest first.
    pub const ALL: [Self; 5] = [Self::V42, Self::V43, Self::V44, Self::V45, Self::V46];

    /// `v0.0.46`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V42 => "v0.0.42",
            Self::V43 => "v0.0.43",
            Self::V44 => "v0.0.44",
            Self::V45 => "v0.0.45",
            Self::V46 => "v0.0.46",
        }
    }
}

impl fmt::Display for DataParser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data_parser/{}", self.name())
    }
}

/// No parser of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownParser(pub String);

impl fmt::Display for UnknownParser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown data parser \"{}\": use one of v0.0.42 to v0.0.46, or leave it out for the newest",
            self.0
        )
    }
}

impl std::error::Error for UnknownParser {}

impl FromStr for DataParser {
    type Err = UnknownParser;

    /// `v0.0.46` or `data_parser/v0.0.46`; parameters after `+` are ignored, as they only ask for other spellings of the same.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.split('+').next().unwrap_or_default();
        let name = name.strip_prefix("data_parser/").unwrap_or(name);
        Self::ALL
            .into_iter()
            .find(|parser| parser.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownParser(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both spellings that tools use, and what they get.
    #[test]
    fn names() {
        assert_eq!("v0.0.42".parse(), Ok(DataParser::V42));
        assert_eq!("data_parser/v0.0.44".parse(), Ok(DataParser::V44));
        assert_eq!("v0.0.43+fast".parse(), Ok(DataParser::V43));
        assert_eq!(DataParser::default().to_string(), "data_parser/v0.0.46");
        assert!("v0.0.39".parse::<DataParser>().is_err());
    }
}
