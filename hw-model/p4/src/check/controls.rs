//! Checks declarations, controls and their parts.

use super::Checker;
use super::scope::{LiveInstance, Symbol};
use super::types::{Place, Structure, Type};
use crate::error::{At, ErrorKind, Result, exactly, fail};
use crate::ir::{Field, Register, Slot};
use crate::limits::{MAX_CELLS, MAX_SLOTS, MAX_STRUCT_DEPTH, MAX_TABLES};
use crate::syntax::{
    Action, Control, Declaration, Direction, Expression, ExpressionKind, Instance, Local, Method, Name,
    Parameter, TypeKind, TypeRef,
};

/// The control to run, and the position of its name.
type Main<'p> = (&'p Control<'p>, At);

impl<'p> Checker<'p> {
    /// Checks a declaration of the program. Returns the control to run if the declaration is `main`.
    pub(super) fn declare(&mut self, declaration: &'p Declaration<'p>) -> Result<Option<Main<'p>>> {
        match declaration {
            Declaration::Constant(constant) => self.constant(constant)?,
            Declaration::Typedef { ty, name } => {
                let ty = self.resolve(ty)?;
                self.add(*name, Symbol::Type(ty))?;
            }
            Declaration::Struct { name, is_header, fields } => self.structure(*name, *is_header, fields)?,
            Declaration::MatchKind(kinds) => self.match_kinds.extend(kinds.iter().map(|kind| kind.text)),
            Declaration::Extern { name, parameter, methods } => {
                Self::check_register(*name, *parameter, methods)?;
                self.add(*name, Symbol::Extern)?;
            }
            Declaration::Action(action) => {
                self.add(action.name, Symbol::Action(action, 0))?;
            }
            Declaration::Control(control) => {
                self.add(control.name, Symbol::Control(control))?;
            }
            Declaration::ControlType { name, parameters } => {
                self.add(*name, Symbol::ControlType(parameters))?;
            }
            Declaration::Package { name, parameters } => {
                self.add(*name, Symbol::Package(parameters))?;
            }
            Declaration::Instance(instance) => return self.package_instance(instance).map(Some),
        }
        Ok(None)
    }

    fn structure(
        &mut self,
        name: Name<'p>,
        is_header: bool,
        fields: &'p [(TypeRef<'p>, Name<'p>)],
    ) -> Result<()> {
        let mut structure = Structure { name: name.text, fields: Vec::new(), slots: 0, depth: 1 };
        for (ty, field) in fields {
            let resolved = self.resolve_kept(ty)?;
            if is_header && matches!(resolved, Type::Structure(_)) {
                let expected = "bit<W>, int<W> or bool".to_owned();
                let found = self.type_name(resolved);
                return fail(ty.at, ErrorKind::Mismatch { expected, found });
            }
            if structure.fields.iter().any(|(other, ..)| *other == field.text) {
                return fail(field.at, ErrorKind::Redeclared(field.text.to_owned()));
            }
            structure.fields.push((field.text, resolved, structure.slots));
            structure.slots += self.slots_of(resolved);
            if let Type::Structure(inner) = resolved {
                structure.depth = structure.depth.max(self.structures[inner].depth + 1);
            }
            if structure.depth > MAX_STRUCT_DEPTH {
                let limit = MAX_STRUCT_DEPTH;
                return fail(field.at, ErrorKind::TooLarge { what: "structs within structs", limit });
            }
            if structure.slots > MAX_SLOTS {
                return fail(field.at, ErrorKind::TooLarge { what: "fields in a struct", limit: MAX_SLOTS });
            }
        }
        if structure.slots == 0 {
            return fail(name.at, ErrorKind::Missing("field"));
        }
        let index = self.structures.len();
        self.structures.push(structure);
        self.add(name, Symbol::Type(Type::Structure(index)))?;
        Ok(())
    }

    /// Checks the only known extern, `register`, as v1model declares it.
    fn check_register(name: Name<'p>, parameter: Option<Name<'p>>, methods: &'p [Method<'p>]) -> Result<()> {
        let is_index = |parameter: &Parameter<'p>, direction| {
            let TypeKind::Fixed { signed: false, width } = &parameter.ty.kind else { return false };
            let ExpressionKind::Number(number) = &width.kind else { return false };
            number.value == 32 && parameter.direction == direction
        };
        let cell = parameter.map_or("", |parameter| parameter.text);
        let is_cell = |parameter: &Parameter<'p>, direction| {
            matches!(parameter.ty.kind, TypeKind::Named(name) if name == cell)
                && parameter.direction == direction
        };
        let matches = |method: &Method<'p>| match (method.name.text, &method.parameters[..]) {
            ("register", [size]) => is_index(size, Direction::None),
            ("read", [result, index]) => is_cell(result, Direction::Out) && is_index(index, Direction::In),
            ("write", [index, value]) => is_index(index, Direction::In) && is_cell(value, Direction::In),
            _ => false,
        };
        if name.text == "register" && methods.len() == 3 && methods.iter().all(matches) {
            return Ok(());
        }
        fail(name.at, ErrorKind::Extern)
    }

    fn package_instance(&mut self, instance: &'p Instance<'p>) -> Result<Main<'p>> {
        let at = instance.ty.at;
        let not_a = |name: &str, what| fail(at, ErrorKind::NotA { name: name.to_owned(), what });
        let TypeKind::Named(package) = instance.ty.kind else {
            return not_a("this type", "a package");
        };
        let (_, Symbol::Package([parameter])) = self.find(package, at)? else {
            return not_a(package, "a package with one parameter, a control");
        };
        if instance.name.text != "main" {
            return not_a(instance.name.text, "`main`, the one instance outside of controls");
        }
        let [Expression { kind: ExpressionKind::Call(callee, arguments), at }] = &instance.arguments[..]
        else {
            return not_a(package, "given one control, as in `Engine(MyControl()) main;`");
        };
        let ExpressionKind::Name(name) = callee.kind else {
            return not_a(package, "given a control by its name, as in `Engine(MyControl()) main;`");
        };
        let (_, Symbol::Control(control)) = self.find(name, *at)? else {
            return fail(*at, ErrorKind::NotA { name: name.to_owned(), what: "a control" });
        };
        exactly::<_, 0>(arguments, name, *at)?;
        let TypeKind::Named(ty) = parameter.ty.kind else {
            return not_a(package, "a package with one parameter, a control");
        };
        let (_, Symbol::ControlType(wanted)) = self.find(ty, parameter.ty.at)? else {
            return fail(parameter.ty.at, ErrorKind::NotA { name: ty.to_owned(), what: "a control's type" });
        };
        let is_equal = control.parameters.len() == wanted.len();
        for (given, wanted) in control.parameters.iter().zip(wanted) {
            let types = (self.resolve_kept(&given.ty)?, self.resolve_kept(&wanted.ty)?);
            if types.0 != types.1 || given.direction != wanted.direction {
                return fail(*at, ErrorKind::ControlType(name.to_owned()));
            }
        }
        if !is_equal {
            return fail(*at, ErrorKind::ControlType(name.to_owned()));
        }
        Ok((control, *at))
    }

    /// Inlines the control to run. Its parameters are the program's inputs and outputs.
    pub(super) fn entry(&mut self, control: &'p Control<'p>, at: At) -> Result<Vec<Field>> {
        let (declared, _) = self.find(control.name.text, at)?;
        self.used.insert(control.name.at);
        self.within(0, declared, |checker| {
            let mut fields = Vec::new();
            let mut places = Vec::new();
            for parameter in &control.parameters {
                let ty = checker.resolve_kept(&parameter.ty)?;
                let name = parameter.name;
                let slot = checker.allocate(ty, name.text, name.at)?;
                let is_input = parameter.direction != Direction::Out;
                let is_output = matches!(parameter.direction, Direction::Out | Direction::InOut);
                for slot in (slot..).take(checker.slots_of(ty)) {
                    if is_input {
                        checker.mark_set(slot);
                    }
                    fields.push(Field {
                        name: checker.names[usize::from(slot)].clone(),
                        width: checker.widths[usize::from(slot)],
                        slot,
                        is_input,
                        is_output,
                    });
                }
                let place = Place { ty, slot, is_writable: is_output, slice: None };
                checker.add(name, Symbol::Variable(place))?;
                places.push((parameter, place));
            }
            checker.control_body(control)?;
            for (parameter, place) in places {
                if parameter.direction == Direction::Out {
                    checker.check_outputs(parameter, place)?;
                }
            }
            Ok(fields)
        })
    }

    /// Inlines the locals and the body of a control, after its parameters.
    fn control_body(&mut self, control: &'p Control<'p>) -> Result<()> {
        for local in &control.locals {
            self.count_step(control.name.at)?;
            match local {
                Local::Constant(constant) => self.constant(constant)?,
                Local::Variable(variable) => self.variable(variable)?,
                Local::Action(action) => {
                    self.add(action.name, Symbol::Action(action, 1))?;
                }
                Local::Table(table) => self.table(table)?,
                Local::Instance(instance) => self.instance(instance)?,
            }
        }
        self.block(&control.body)?;
        for local in &control.locals {
            if let Local::Action(action) = local
                && !self.used.contains(&action.name.at)
            {
                let (declared, _) = self.find(action.name.text, action.name.at)?;
                self.check_alone(action, 1, declared)?;
            }
        }
        Ok(())
    }

    fn instance(&mut self, instance: &'p Instance<'p>) -> Result<()> {
        let (at, name) = (instance.ty.at, instance.name);
        if let TypeKind::Specialized(external, cell) = &instance.ty.kind {
            let (_, Symbol::Extern) = self.find(external, at)? else {
                return fail(at, ErrorKind::Extern);
            };
            return self.register(instance, cell);
        }
        let TypeKind::Named(control) = instance.ty.kind else {
            return fail(at, ErrorKind::NotA { name: "this type".to_owned(), what: "a control" });
        };
        let (declared, Symbol::Control(control)) = self.find(control, at)? else {
            let what = "a control, or a register with the type of its cells";
            return fail(at, ErrorKind::NotA { name: control.to_owned(), what });
        };
        exactly::<_, 0>(&instance.arguments, name.text, name_at(instance))?;
        let index = self.live_instances.len();
        self.live_instances.push(LiveInstance { control, declared, name: name.text, is_applied: false });
        self.add(name, Symbol::Instance(index))?;
        Ok(())
    }

    fn register(&mut self, instance: &'p Instance<'p>, cell: &'p TypeRef<'p>) -> Result<()> {
        let name = instance.name;
        let ty = self.resolve_kept(cell)?;
        if matches!(ty, Type::Structure(_)) {
            let (expected, found) = ("bit<W>, int<W> or bool".to_owned(), self.type_name(ty));
            return fail(cell.at, ErrorKind::Mismatch { expected, found });
        }
        let [size] = exactly(&instance.arguments, name.text, name_at(instance))?;
        let cells = usize::try_from(self.known_bits(size, Type::Bit(32))?).unwrap_or(usize::MAX);
        let all = self.registers.iter().fold(cells, |all, register| all.saturating_add(register.cells));
        if all > MAX_CELLS || cells == 0 {
            let what = "cells in all registers, or none in one";
            return fail(size.at, ErrorKind::TooLarge { what, limit: MAX_CELLS });
        }
        if self.registers.len() >= MAX_TABLES {
            return fail(name.at, ErrorKind::TooLarge { what: "registers", limit: MAX_TABLES });
        }
        let number = self.registers.len() as u16;
        let path = format!("{}{}", self.path, name.text);
        self.registers.push(Register { name: path, width: ty.width(), cells });
        self.add(name, Symbol::Register(number, ty))?;
        Ok(())
    }

    /// Inlines an instance of a control.
    pub(super) fn apply_control(
        &mut self,
        index: usize,
        arguments: &'p [Expression<'p>],
        at: At,
    ) -> Result<()> {
        self.check_is_apply(at)?;
        let live = self.live_instances[index].clone();
        if core::mem::replace(&mut self.live_instances[index].is_applied, true) {
            return fail(at, ErrorKind::AppliedTwice(live.name.to_owned()));
        }
        let control = live.control;
        self.used.insert(control.name.at);
        let outside = self.path.len();
        self.path = format!("{}{}.", self.path, live.name);
        let what = (&control.name, &control.parameters[..], arguments);
        let result = self.within_call(what, (0, live.declared), at, |checker| checker.control_body(control));
        self.path.truncate(outside);
        result
    }

    /// Checks actions and controls that are never called. They have to be correct too.
    pub(super) fn check_unused(&mut self, declarations: &'p [Declaration<'p>]) -> Result<()> {
        for declaration in declarations {
            match declaration {
                Declaration::Action(action) if !self.used.contains(&action.name.at) => {
                    let (declared, _) = self.find(action.name.text, action.name.at)?;
                    self.check_alone(action, 0, declared)?;
                }
                Declaration::Control(control) if !self.used.contains(&control.name.at) => {
                    self.entry(control, control.name.at)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks an action without a call, as if every variable that it reads were assigned.
    fn check_alone(&mut self, action: &'p Action<'p>, levels: usize, declared: usize) -> Result<()> {
        let assume_set = core::mem::replace(&mut self.assume_set, true);
        let outside = core::mem::take(&mut self.nodes);
        self.within(levels, declared, |checker| {
            for parameter in &action.parameters {
                let ty = checker.resolve_kept(&parameter.ty)?;
                let slot: Slot = checker.allocate(ty, parameter.name.text, parameter.name.at)?;
                let is_writable = matches!(parameter.direction, Direction::Out | Direction::InOut);
                let place = Place { ty, slot, is_writable, slice: None };
                checker.add(parameter.name, Symbol::Variable(place))?;
            }
            checker.block(&action.body)
        })?;
        self.nodes = outside;
        self.assume_set = assume_set;
        Ok(())
    }
}

const fn name_at(instance: &Instance<'_>) -> At {
    instance.name.at
}
