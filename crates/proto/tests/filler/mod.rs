//! Values of any record, made from a seed by answering serde's questions: every field of every record is reached without
//! naming it, also fields added later.
//!
//! In `full` mode every `Option` is there, every list has entries and no number is 0, so that a field lost on the way
//! cannot hide behind its default. Strings are names of TRES, which are legal wherever the model checks a text.

use serde::de::value::{Error, StrDeserializer, StringDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::{Deserializer, de::IntoDeserializer};
use sluice_testkit::Random;

/// A record made from `seed`.
pub fn filled<T: DeserializeOwned>(seed: u64, full: bool) -> T {
    let mut filler = Filler {
        random: Random::new(seed),
        full,
        made: 0,
    };
    T::deserialize(&mut filler).expect("the filler answers everything the model's records ask")
}

struct Filler {
    random: Random,
    full: bool,
    made: u64,
}

impl Filler {
    fn number(&mut self) -> u64 {
        let number = self.random.number();
        if !self.full && number.is_multiple_of(5) {
            return [0, 1, u64::MAX, 1 << 31, 1 << 16][(number >> 8) as usize % 5];
        }
        number | 1
    }

    fn length(&mut self) -> usize {
        if self.full {
            2
        } else {
            (self.random.number() % 3) as usize
        }
    }

    fn string(&mut self) -> String {
        self.made += 1;
        let made = self.made;
        match self.random.number() % 3 {
            0 => format!("gres/gpu:t{made}"),
            1 => format!("license/n{made}"),
            _ => format!("fs/n{made}"),
        }
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $kind:ty),+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let number = self.number() as $kind;
            visitor.$visit(if self.full && number == 0 { 1 } else { number })
        })+
    };
}

impl<'de> Deserializer<'de> for &mut Filler {
    type Error = Error;

    numbers!(
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16,
        deserialize_u64 visit_u64 u64
    );

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        // The top numbers are reserved among step ids; other fields lose nothing by staying below.
        visitor.visit_u32((self.number() as u32 & 0x7fff_ffff) | u32::from(self.full))
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let number = f64::from((self.number() as u32) | 1);
        visitor.visit_f64(number / 8.0)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let bit = self.full || self.random.number().is_multiple_of(2);
        visitor.visit_bool(bit)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = self.string();
        visitor.visit_string(text)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.full || self.random.number().is_multiple_of(2) {
            visitor.visit_some(self)
        } else {
            visitor.visit_none()
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let left = self.length();
        visitor.visit_seq(Entries {
            filler: self,
            left,
            fields: &[],
            flags_mask: None,
            at_flags: false,
        })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Entries {
            filler: self,
            left,
            fields: &[],
            flags_mask: None,
            at_flags: false,
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let left = self.length();
        visitor.visit_map(Entries {
            filler: self,
            left,
            fields: &[],
            flags_mask: None,
            at_flags: false,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let flags_mask = match name {
            "JobStateFull" => Some(!0xff),
            "NodeStateFull" => Some(!0xf),
            _ => None,
        };
        visitor.visit_map(Entries {
            filler: self,
            left: fields.len(),
            fields,
            flags_mask,
            at_flags: false,
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let index = self.random.number() as usize % variants.len();
        visitor.visit_enum(Variant {
            filler: self,
            name: variants[index],
        })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom("a record asked for just anything"))
    }

    serde::forward_to_deserialize_any! {
        char bytes byte_buf unit unit_struct tuple_struct identifier ignored_any
    }
}

/// Entries of a list, a map, or the fields of a struct.
struct Entries<'a> {
    filler: &'a mut Filler,
    left: usize,
    fields: &'static [&'static str],
    /// Bits that `flags` of a state may have: its low bits are those of the base state, and are never set.
    flags_mask: Option<u32>,
    /// The last key was `flags`.
    at_flags: bool,
}

impl<'de> SeqAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.filler).map(Some)
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        let position = self.fields.len().wrapping_sub(self.left);
        self.left -= 1;
        if let Some(field) = self.fields.get(position) {
            self.at_flags = *field == "flags";
            return seed.deserialize(StrDeserializer::new(field)).map(Some);
        }
        let key = self.filler.string();
        seed.deserialize(StringDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        if let (Some(mask), true) = (self.flags_mask, self.at_flags) {
            let bits = self.filler.random.number() as u32 & mask;
            return seed.deserialize(IntoDeserializer::<Error>::into_deserializer(bits));
        }
        seed.deserialize(&mut *self.filler)
    }
}

struct Variant<'a> {
    filler: &'a mut Filler,
    name: &'static str,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let value = seed.deserialize(StrDeserializer::new(self.name))?;
        Ok((value, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.filler)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.filler.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.filler.deserialize_struct("", fields, visitor)
    }
}
