//! Initiator and target, each built and used alone: what it returns to the step that composes it.

mod initiator;
mod target;
