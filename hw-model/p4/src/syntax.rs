//! The syntax tree of a program.

use super::error::At;
use super::lexer::Number;

#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'s> {
    pub(super) text: &'s str,
    pub(super) at: At,
}

#[derive(Clone, Debug)]
pub(super) struct TypeRef<'s> {
    pub(super) at: At,
    pub(super) kind: TypeKind<'s>,
}

#[derive(Clone, Debug)]
pub(super) enum TypeKind<'s> {
    Bool,
    /// A number without a width.
    Integer,
    /// `bit<W>`, `int<W>`
    Fixed {
        signed: bool,
        width: Box<Expression<'s>>,
    },
    Named(&'s str),
    /// `register<T>`
    Specialized(&'s str, Box<TypeRef<'s>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnaryOperator {
    Not,
    Complement,
    Minus,
    Plus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BinaryOperator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    Greater,
    LessEqual,
    GreaterEqual,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Concat,
    Add,
    Sub,
    SaturatingAdd,
    SaturatingSub,
    Mul,
}

impl BinaryOperator {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::Greater => ">",
            Self::LessEqual => "<=",
            Self::GreaterEqual => ">=",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::BitAnd => "&",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::Concat => "++",
            Self::Add => "+",
            Self::Sub => "-",
            Self::SaturatingAdd => "|+|",
            Self::SaturatingSub => "|-|",
            Self::Mul => "*",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Expression<'s> {
    pub(super) at: At,
    pub(super) kind: ExpressionKind<'s>,
}

#[derive(Clone, Debug)]
pub(super) enum ExpressionKind<'s> {
    Number(Number),
    Bool(bool),
    Name(&'s str),
    Member(Box<Expression<'s>>, Name<'s>),
    /// Value, upper bit, lower bit.
    Slice(Box<[Expression<'s>; 3]>),
    Unary(UnaryOperator, Box<Expression<'s>>),
    Binary(BinaryOperator, Box<[Expression<'s>; 2]>),
    /// Condition, value if true, value if false.
    Choice(Box<[Expression<'s>; 3]>),
    Cast(Box<TypeRef<'s>>, Box<Expression<'s>>),
    Call(Box<Expression<'s>>, Vec<Expression<'s>>),
}

#[derive(Clone, Debug)]
pub(super) struct Constant<'s> {
    pub(super) ty: TypeRef<'s>,
    pub(super) name: Name<'s>,
    pub(super) value: Expression<'s>,
}

#[derive(Clone, Debug)]
pub(super) struct Variable<'s> {
    pub(super) ty: TypeRef<'s>,
    pub(super) name: Name<'s>,
    pub(super) value: Option<Expression<'s>>,
}

#[derive(Clone, Debug)]
pub(super) enum Statement<'s> {
    Empty,
    Block(Vec<Statement<'s>>),
    Variable(Variable<'s>),
    Constant(Constant<'s>),
    Assign { target: Expression<'s>, value: Expression<'s> },
    Call(Expression<'s>),
    If { condition: Expression<'s>, then: Box<Statement<'s>>, otherwise: Option<Box<Statement<'s>>> },
}

impl Statement<'_> {
    /// Returns the approximate position of the start. For a block it is the position of its first statement.
    pub(super) fn at(&self) -> At {
        match self {
            Self::Empty => 0,
            Self::Block(statements) => statements.first().map_or(0, Self::at),
            Self::Variable(variable) => variable.name.at,
            Self::Constant(constant) => constant.name.at,
            Self::Assign { target, .. } => target.at,
            Self::Call(call) => call.at,
            Self::If { condition, .. } => condition.at,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// No direction word. For an action's parameter it means that the table's entry gives the value.
    None,
    In,
    Out,
    InOut,
}

#[derive(Clone, Debug)]
pub(super) struct Parameter<'s> {
    pub(super) direction: Direction,
    pub(super) ty: TypeRef<'s>,
    pub(super) name: Name<'s>,
}

#[derive(Clone, Debug)]
pub(super) struct Action<'s> {
    pub(super) name: Name<'s>,
    pub(super) parameters: Vec<Parameter<'s>>,
    pub(super) body: Vec<Statement<'s>>,
}

/// An action call `name(arguments)` in a table.
#[derive(Clone, Debug)]
pub(super) struct ActionCall<'s> {
    pub(super) name: Name<'s>,
    pub(super) arguments: Vec<Expression<'s>>,
}

#[derive(Clone, Debug)]
pub(super) enum Keyset<'s> {
    Any,
    Value(Expression<'s>),
    Mask(Expression<'s>, Expression<'s>),
    Range(Expression<'s>, Expression<'s>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry<'s> {
    pub(super) at: At,
    pub(super) keys: Vec<Keyset<'s>>,
    pub(super) action: ActionCall<'s>,
}

#[derive(Clone, Debug)]
pub(super) struct Table<'s> {
    pub(super) name: Name<'s>,
    pub(super) keys: Vec<(Expression<'s>, Name<'s>)>,
    pub(super) actions: Vec<Name<'s>>,
    pub(super) default_action: Option<ActionCall<'s>>,
    pub(super) constant_default: bool,
    pub(super) size: Option<Expression<'s>>,
    pub(super) entries: Vec<Entry<'s>>,
    pub(super) constant_entries: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Instance<'s> {
    pub(super) ty: TypeRef<'s>,
    pub(super) arguments: Vec<Expression<'s>>,
    pub(super) name: Name<'s>,
}

#[derive(Clone, Debug)]
pub(super) enum Local<'s> {
    Constant(Constant<'s>),
    Variable(Variable<'s>),
    Action(Action<'s>),
    Table(Table<'s>),
    Instance(Instance<'s>),
}

#[derive(Clone, Debug)]
pub(super) struct Control<'s> {
    pub(super) name: Name<'s>,
    pub(super) parameters: Vec<Parameter<'s>>,
    pub(super) locals: Vec<Local<'s>>,
    pub(super) body: Vec<Statement<'s>>,
}

#[derive(Clone, Debug)]
pub(super) struct Method<'s> {
    pub(super) name: Name<'s>,
    pub(super) parameters: Vec<Parameter<'s>>,
}

#[derive(Clone, Debug)]
pub(super) enum Declaration<'s> {
    Constant(Constant<'s>),
    Typedef { ty: TypeRef<'s>, name: Name<'s> },
    Struct { name: Name<'s>, is_header: bool, fields: Vec<(TypeRef<'s>, Name<'s>)> },
    MatchKind(Vec<Name<'s>>),
    Extern { name: Name<'s>, parameter: Option<Name<'s>>, methods: Vec<Method<'s>> },
    Action(Action<'s>),
    Control(Control<'s>),
    ControlType { name: Name<'s>, parameters: Vec<Parameter<'s>> },
    Package { name: Name<'s>, parameters: Vec<Parameter<'s>> },
    Instance(Instance<'s>),
}
