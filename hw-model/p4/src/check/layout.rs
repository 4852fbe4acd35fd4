//! The names of types, and the slots of values.

use super::Checker;
use super::types::Type;
use crate::error::{At, ErrorKind, Result, fail};
use crate::ir::Slot;
use crate::limits::{MAX_SLOTS, MAX_WIDTH};
use crate::syntax::{Expression, TypeKind, TypeRef};

impl<'p> Checker<'p> {
    pub(super) fn type_name(&self, ty: Type) -> String {
        match ty {
            Type::Bool => "bool".to_owned(),
            Type::Integer => "int".to_owned(),
            Type::Bit(width) => format!("bit<{width}>"),
            Type::Int(width) => format!("int<{width}>"),
            Type::Structure(index) => self.structures[index].name.to_owned(),
        }
    }

    /// Returns the number of slots of a value.
    pub(super) fn slots_of(&self, ty: Type) -> usize {
        match ty {
            Type::Structure(index) => self.structures[index].slots,
            _ => 1,
        }
    }

    pub(super) fn resolve(&mut self, ty: &'p TypeRef<'p>) -> Result<Type> {
        match &ty.kind {
            TypeKind::Bool => Ok(Type::Bool),
            TypeKind::Integer => Ok(Type::Integer),
            TypeKind::Fixed { signed, width } => {
                let width = self.width(width)?;
                Ok(if *signed { Type::Int(width) } else { Type::Bit(width) })
            }
            TypeKind::Named(name) => self.named_type(name, ty.at),
            TypeKind::Specialized(name, _) => {
                fail(ty.at, ErrorKind::NotA { name: (*name).to_owned(), what: "the type of a value" })
            }
        }
    }

    fn width(&mut self, width: &'p Expression<'p>) -> Result<u32> {
        let value = self.known_number(width)?;
        match u32::try_from(value) {
            Ok(width) if (1..=MAX_WIDTH).contains(&width) => Ok(width),
            _ => fail(width.at, ErrorKind::Width(value)),
        }
    }

    /// Returns the type of a stored value. It is never `int`, because such numbers exist only at compile time.
    pub(super) fn resolve_kept(&mut self, ty: &'p TypeRef<'p>) -> Result<Type> {
        match self.resolve(ty)? {
            Type::Integer => fail(
                ty.at,
                ErrorKind::Excluded {
                    what: "a variable of type `int`",
                    instead: "give it a width, as in int<32>",
                },
            ),
            ty => Ok(ty),
        }
    }

    /// Allocates consecutive slots for a variable, and names them after it.
    pub(super) fn allocate(&mut self, ty: Type, name: &str, at: At) -> Result<Slot> {
        if self.widths.len() + self.slots_of(ty) > MAX_SLOTS {
            return fail(at, ErrorKind::TooLarge { what: "values at once", limit: MAX_SLOTS });
        }
        let Type::Structure(index) = ty else {
            return self.slot(ty.width(), name, at);
        };
        let first = self.widths.len() as Slot;
        for position in 0..self.structures[index].fields.len() {
            let (field, ty, _) = self.structures[index].fields[position];
            self.allocate(ty, &format!("{name}.{field}"), at)?;
        }
        Ok(first)
    }
}
