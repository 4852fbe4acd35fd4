//! Checks calls of actions, tables, registers and controls.

use super::Checker;
use super::scope::Symbol;
use super::types::{Operand, Place, Type, Value};
use crate::error::{At, ErrorKind, Result, exactly, fail};
use crate::ir::{Apply, Arm, NodeKind, Op};
use crate::syntax::{Action, Direction, Expression, ExpressionKind, Name, Parameter, UnaryOperator};

impl<'p> Checker<'p> {
    /// Checks a call that is a statement.
    pub(super) fn call(&mut self, call: &'p Expression<'p>) -> Result<()> {
        let ExpressionKind::Call(callee, arguments) = &call.kind else {
            return fail(call.at, ErrorKind::NotConstant);
        };
        match &callee.kind {
            ExpressionKind::Name(name) => match self.find(name, callee.at)? {
                (declared, Symbol::Action(action, levels)) => {
                    self.used.insert(action.name.at);
                    let what = (&action.name, action.parameters.as_slice(), arguments.as_slice());
                    self.within_call(what, (levels, declared), call.at, |checker| checker.block(&action.body))
                }
                _ => fail(callee.at, ErrorKind::NotA { name: (*name).to_owned(), what: "an action" }),
            },
            ExpressionKind::Member(object, method) => self.method(object, *method, arguments),
            _ => {
                let name = "this expression".to_owned();
                fail(callee.at, ErrorKind::NotA { name, what: "an action or method" })
            }
        }
    }

    fn method(
        &mut self,
        object: &'p Expression<'p>,
        method: Name<'p>,
        arguments: &'p [Expression<'p>],
    ) -> Result<()> {
        let ExpressionKind::Name(name) = object.kind else {
            let name = method.text.to_owned();
            return fail(
                method.at,
                ErrorKind::NotA { name, what: "a method of a table, register or instance" },
            );
        };
        match (self.find(name, object.at)?.1, method.text) {
            (Symbol::Table(index), "apply") => {
                exactly::<_, 0>(arguments, name, object.at)?;
                self.apply_table(index, object.at).map(drop)
            }
            (Symbol::Register(register, ty), "read") => self.read_register((register, ty), method, arguments),
            (Symbol::Register(register, ty), "write") => {
                self.write_register((register, ty), method, arguments)
            }
            (Symbol::Instance(index), "apply") => self.apply_control(index, arguments, object.at),
            _ => fail(
                method.at,
                ErrorKind::NotA {
                    name: format!("{name}.{}", method.text),
                    what: "apply() of a table or an instance, or read() or write() of a register",
                },
            ),
        }
    }

    fn read_register(
        &mut self,
        (register, ty): (u16, Type),
        method: Name<'p>,
        arguments: &'p [Expression<'p>],
    ) -> Result<()> {
        let [result, index] = exactly(arguments, method.text, method.at)?;
        let index_operand = self.expression_of(index, Type::Bit(32))?;
        let index = self.read(&index_operand, index.at)?;
        let place = self.writable(result)?;
        let read = self.slot(ty.width(), "", result.at)?;
        self.mark_set(read);
        self.push(NodeKind::Read { register, index, result: read }, method.at)?;
        let value = self.convert(Operand { ty, value: Value::Slot(read) }, place.ty, result.at)?;
        self.assign(place, value, result.at)
    }

    fn write_register(
        &mut self,
        (register, ty): (u16, Type),
        method: Name<'p>,
        arguments: &'p [Expression<'p>],
    ) -> Result<()> {
        let [index, value] = exactly(arguments, method.text, method.at)?;
        let index_operand = self.expression_of(index, Type::Bit(32))?;
        let value_operand = self.expression_of(value, ty)?;
        let index = self.read(&index_operand, index.at)?;
        let value = self.read(&value_operand, value.at)?;
        self.push(NodeKind::Write { register, index, value }, method.at)
    }

    /// Checks `table.apply().hit` or `.miss` as a whole condition. Returns `None` for any other condition.
    pub(super) fn table_test(&mut self, condition: &'p Expression<'p>) -> Result<Option<Operand>> {
        let (inner, negated) = match &condition.kind {
            ExpressionKind::Unary(UnaryOperator::Not, inner) => (&**inner, true),
            _ => (condition, false),
        };
        let ExpressionKind::Member(call, test @ Name { text: "hit" | "miss", .. }) = &inner.kind else {
            return Ok(None);
        };
        let ExpressionKind::Call(callee, arguments) = &call.kind else {
            return Ok(None);
        };
        let (ExpressionKind::Member(object, Name { text: "apply", .. }), []) = (&callee.kind, &arguments[..])
        else {
            return Ok(None);
        };
        let ExpressionKind::Name(name) = object.kind else {
            return Ok(None);
        };
        let (_, Symbol::Table(index)) = self.find(name, object.at)? else {
            return fail(object.at, ErrorKind::NotA { name: name.to_owned(), what: "a table" });
        };
        let hit = self.apply_table(index, object.at)?;
        if (test.text == "miss") == negated {
            return Ok(Some(hit));
        }
        self.calculate((Op::Not, 1, 0), &[hit], Type::Bool, test.at).map(Some)
    }

    /// Checks that the place is in a control's `apply` block. Actions cannot apply tables and controls.
    pub(super) fn check_is_apply(&self, at: At) -> Result<()> {
        if self.own_base == 0 {
            return Ok(());
        }
        let (what, instead) = ("`apply` in an action", "apply it in the control's `apply` block");
        fail(at, ErrorKind::Excluded { what, instead })
    }

    /// Makes a lookup and its actions. Returns the value that tells whether an entry matched.
    fn apply_table(&mut self, index: usize, at: At) -> Result<Operand> {
        self.check_is_apply(at)?;
        let live = self.live_tables[index].clone();
        if core::mem::replace(&mut self.live_tables[index].is_applied, true) {
            return fail(at, ErrorKind::AppliedTwice(live.table.name.text.to_owned()));
        }
        let mut keys = Vec::new();
        for ((field, _), ty) in live.table.keys.iter().zip(&live.key_types) {
            let operand = self.within(1, live.declared, |checker| checker.expression_of(field, *ty))?;
            keys.push(self.read(&operand, field.at)?);
        }
        let hit = self.slot(1, "", at)?;
        self.mark_set(hit);
        let before = self.set.clone();
        let mut on_all: Option<Vec<u64>> = None;
        let mut arms = Vec::new();
        for (action, declared, levels) in live.actions {
            self.set = before.clone();
            self.set.resize(self.widths.len().div_ceil(64), 0);
            let arm = self.within(levels, declared, |checker| checker.arm(action))?;
            arms.push(arm);
            if let Some(others) = on_all.take() {
                self.set_on_both(&others);
            }
            on_all = Some(core::mem::take(&mut self.set));
        }
        self.set = on_all.unwrap_or(before);
        self.set.resize(self.widths.len().div_ceil(64), 0);
        self.push(NodeKind::Apply(Apply { table: live.number, keys, hit, arms }), at)?;
        Ok(Operand { ty: Type::Bool, value: Value::Slot(hit) })
    }

    /// Makes an action into an arm of a table. Its parameters come from the entry.
    pub(super) fn arm(&mut self, action: &'p Action<'p>) -> Result<Arm> {
        self.used.insert(action.name.at);
        let outside = core::mem::take(&mut self.nodes);
        let mut parameters = Vec::new();
        for parameter in &action.parameters {
            let ty = self.resolve_kept(&parameter.ty)?;
            let slot = self.allocate(ty, parameter.name.text, parameter.name.at)?;
            self.mark_set(slot);
            parameters.push(slot);
            let place = Place { ty, slot, is_writable: false, slice: None };
            self.add(parameter.name, Symbol::Variable(place))?;
        }
        self.block(&action.body)?;
        let body = core::mem::replace(&mut self.nodes, outside);
        Ok(Arm { parameters, body })
    }

    /// Inlines a call: copies the inputs in, does the work, and copies the outputs out.
    pub(super) fn within_call(
        &mut self,
        (name, parameters, arguments): (&Name<'p>, &'p [Parameter<'p>], &'p [Expression<'p>]),
        (levels, declared): (usize, usize),
        at: At,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if parameters.len() != arguments.len() {
            let (expected, found) = (parameters.len(), arguments.len());
            return fail(at, ErrorKind::Arguments { name: name.text.to_owned(), expected, found });
        }
        let mut bound = Vec::new();
        for (parameter, argument) in parameters.iter().zip(arguments) {
            let ty = self.within(levels, declared, |checker| checker.resolve_kept(&parameter.ty))?;
            let slot = self.allocate(ty, parameter.name.text, argument.at)?;
            let is_output = matches!(parameter.direction, Direction::Out | Direction::InOut);
            let target = if is_output { Some(self.writable(argument)?) } else { None };
            let place = Place { ty, slot, is_writable: is_output, slice: None };
            if parameter.direction != Direction::Out {
                let value = self.expression_of(argument, ty)?;
                self.assign(place, value, argument.at)?;
            }
            if let Some(target) = target
                && target.ty != ty
            {
                let (expected, found) = (self.type_name(ty), self.type_name(target.ty));
                return fail(argument.at, ErrorKind::Mismatch { expected, found });
            }
            bound.push((parameter, place, target));
        }
        self.within(levels, declared, |checker| {
            for (parameter, place, _) in &bound {
                checker.add(parameter.name, Symbol::Variable(*place))?;
            }
            work(checker)
        })?;
        for (parameter, place, target) in bound {
            let Some(target) = target else { continue };
            self.check_outputs(parameter, place)?;
            let value = match place.ty {
                Type::Structure(_) => Value::Structure(place.slot),
                _ => Value::Slot(place.slot),
            };
            self.assign(target, Operand { ty: place.ty, value }, at)?;
        }
        Ok(())
    }

    /// Checks that all parts of an output have a value.
    pub(super) fn check_outputs(&self, parameter: &Parameter<'p>, place: Place) -> Result<()> {
        for slot in (place.slot..).take(self.slots_of(place.ty)) {
            if !self.is_set(slot) {
                let name = self.names[usize::from(slot)].clone();
                return fail(parameter.name.at, ErrorKind::OutUnset(name));
            }
        }
        Ok(())
    }
}
