//! Checks tables: key, actions and entries.

use super::Checker;
use super::scope::{LiveTable, Symbol};
use super::types::Type;
use crate::error::{At, ErrorKind, MatchFault, Result, fail};
use crate::ir::{Chosen, Entry, Match, MatchKind, Table as Compiled};
use crate::limits::{MAX_ALL_ENTRIES, MAX_ENTRIES, MAX_TABLES, MAX_WIDTH};
use crate::lookup::Lookup;
use crate::syntax::{Action, ActionCall, Direction, Keyset, Table};

/// The kinds and widths of a key's fields, and their types.
type Key = (Vec<(MatchKind, u32)>, Vec<Type>);

impl<'p> Checker<'p> {
    pub(super) fn table(&mut self, table: &'p Table<'p>) -> Result<()> {
        let at = table.name.at;
        let (keys, key_types) = self.key(table)?;
        let mut actions = Vec::new();
        let mut compiled_actions = Vec::new();
        for name in &table.actions {
            let (declared, Symbol::Action(action, levels)) = self.find(name.text, name.at)? else {
                return fail(name.at, ErrorKind::NotA { name: name.text.to_owned(), what: "an action" });
            };
            let mut widths = Vec::new();
            for parameter in &action.parameters {
                if parameter.direction != Direction::None {
                    return fail(name.at, ErrorKind::Directed(name.text.to_owned()));
                }
                let ty = self.within(levels, declared, |checker| checker.resolve_kept(&parameter.ty))?;
                if matches!(ty, Type::Structure(_)) {
                    let expected = "bit<W>, int<W> or bool".to_owned();
                    let found = self.type_name(ty);
                    return fail(parameter.name.at, ErrorKind::Mismatch { expected, found });
                }
                widths.push(ty.width());
            }
            actions.push((action, declared, levels));
            compiled_actions.push((name.text.to_owned(), widths));
        }
        if actions.is_empty() {
            return fail(at, ErrorKind::Missing("actions"));
        }
        let Some(default) = &table.default_action else {
            return fail(at, ErrorKind::Missing("default_action"));
        };
        let default = self.chosen(default, &actions)?;
        let mut entries = Vec::new();
        for entry in &table.entries {
            self.count_entry(entry.at)?;
            if entry.keys.len() != keys.len() {
                return fail(entry.at, MatchFault::Count.into());
            }
            let mut matches = Vec::new();
            for (keyset, ty) in entry.keys.iter().zip(&key_types) {
                matches.push(self.keyset(keyset, *ty)?);
            }
            entries.push(Entry { matches, chosen: self.chosen(&entry.action, &actions)? });
        }
        let size = match &table.size {
            Some(size) => match usize::try_from(self.known_number(size)?) {
                Ok(number @ 1..=MAX_ENTRIES) => number,
                _ => {
                    let limit = MAX_ENTRIES;
                    return fail(
                        size.at,
                        ErrorKind::TooLarge { what: "or fewer than 1 entries in a table", limit },
                    );
                }
            },
            None if table.constant_entries => entries.len(),
            None => MAX_ENTRIES,
        };
        let compiled = Compiled {
            name: format!("{}{}", self.path, table.name.text),
            keys,
            actions: compiled_actions,
            entries,
            default,
            constant_entries: table.constant_entries,
            constant_default: table.constant_default,
            size,
        };
        if let Err((index, fault)) = Lookup::new(&compiled) {
            return fail(table.entries.get(index).map_or(at, |entry| entry.at), fault.into());
        }
        if self.tables.len() >= MAX_TABLES {
            return fail(at, ErrorKind::TooLarge { what: "tables", limit: MAX_TABLES });
        }
        let number = self.tables.len() as u16;
        self.tables.push(compiled);
        let live = self.live_tables.len();
        let declared = self.add(table.name, Symbol::Table(live))?;
        self.live_tables.push(LiveTable { table, declared, number, key_types, actions, is_applied: false });
        Ok(())
    }

    fn count_entry(&mut self, at: At) -> Result<()> {
        self.entries += 1;
        if self.entries > MAX_ALL_ENTRIES {
            return fail(at, ErrorKind::TooLarge { what: "entries in all tables", limit: MAX_ALL_ENTRIES });
        }
        Ok(())
    }

    /// Returns the kinds, widths and types of the key's fields. The steps that calculate a field are made where
    /// the table is applied.
    fn key(&mut self, table: &'p Table<'p>) -> Result<Key> {
        let (mut keys, mut types) = (Vec::new(), Vec::new());
        if table.keys.is_empty() {
            return fail(table.name.at, ErrorKind::Missing("key"));
        }
        let assume_set = core::mem::replace(&mut self.assume_set, true);
        for (field, kind) in &table.keys {
            let outside = core::mem::take(&mut self.nodes);
            let operand = self.expression(field)?;
            self.nodes = outside;
            if !operand.ty.is_fixed() && operand.ty != Type::Bool {
                let (found, needs) = (self.type_name(operand.ty), "bit<W>, int<W> or bool");
                return fail(field.at, ErrorKind::Operand { operator: "key", found, needs });
            }
            let known = MatchKind::from_name(kind.text).filter(|_| self.match_kinds.contains(kind.text));
            let Some(match_kind) = known else {
                let what = "exact, ternary, lpm or range, declared in a `match_kind`";
                return fail(kind.at, ErrorKind::NotA { name: kind.text.to_owned(), what });
            };
            if match_kind == MatchKind::Range && operand.ty.is_signed() {
                let (found, needs) = (self.type_name(operand.ty), "bit<W>: cast it");
                return fail(field.at, ErrorKind::Operand { operator: "range", found, needs });
            }
            keys.push((match_kind, operand.ty.width()));
            types.push(operand.ty);
        }
        self.assume_set = assume_set;
        let bits: u32 = keys.iter().map(|(_, width)| *width).sum();
        if bits > MAX_WIDTH {
            let limit = MAX_WIDTH as usize;
            return fail(table.name.at, ErrorKind::TooLarge { what: "bits in a key", limit });
        }
        Ok((keys, types))
    }

    fn chosen(
        &mut self,
        call: &'p ActionCall<'p>,
        actions: &[(&'p Action<'p>, usize, usize)],
    ) -> Result<Chosen> {
        let name = call.name;
        let Some(number) = actions.iter().position(|(action, ..)| action.name.text == name.text) else {
            return fail(name.at, ErrorKind::NotListed(name.text.to_owned()));
        };
        let (action, declared, levels) = actions[number];
        let (expected, found) = (action.parameters.len(), call.arguments.len());
        if expected != found {
            return fail(name.at, ErrorKind::Arguments { name: name.text.to_owned(), expected, found });
        }
        let mut arguments = Vec::new();
        for (parameter, argument) in action.parameters.iter().zip(&call.arguments) {
            let ty = self.within(levels, declared, |checker| checker.resolve_kept(&parameter.ty))?;
            arguments.push(self.known_bits(argument, ty)?);
        }
        Ok(Chosen { action: number as u16, arguments })
    }

    fn keyset(&mut self, keyset: &'p Keyset<'p>, ty: Type) -> Result<Match> {
        Ok(match keyset {
            Keyset::Any => Match::Any,
            Keyset::Value(value) => Match::Value(self.known_bits(value, ty)?),
            Keyset::Mask(value, mask) => Match::Mask(self.known_bits(value, ty)?, self.known_bits(mask, ty)?),
            Keyset::Range(low, high) => Match::Range(self.known_bits(low, ty)?, self.known_bits(high, ty)?),
        })
    }
}
