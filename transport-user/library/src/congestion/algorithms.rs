//! The algorithms of a node by name: built-in and custom ones.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use transport_common::congestion::algorithm::{Algorithm, AlgorithmId};

use super::AlgorithmChoice;
use crate::common::error::Error;

/// A custom algorithm, shared by the node and its rate update engine.
pub type SharedAlgorithm = Arc<dyn Algorithm + Send + Sync>;

/// The algorithms that connections of a node may select by name: the built-in ones, which every node has, and the
/// custom ones that were added. They are options of a node
/// (`NodeOptions::algorithms` of `tiercel-node`). Reading a node file needs them as well
/// (`NodeFile::load_with`).
///
/// ```
/// use transport_common::congestion::parameters::Prepared;
/// use tiercel::congestion::{Algorithm, Algorithms, EngineState, Event, Outcome};
///
/// struct Unmoved;
///
/// impl Algorithm for Unmoved {
///     fn name(&self) -> &'static str {
///         "unmoved"
///     }
///     fn update(&self, event: &Event, _: &mut EngineState, _: &Prepared, outcome: &mut Outcome) {
///         outcome.carry_over(event);
///     }
/// }
///
/// let algorithms = Algorithms::new().with(Unmoved)?;
/// assert_eq!(algorithms.names(), ["swift", "dcqcn", "newreno", "fixed", "unmoved"]);
/// # Ok::<(), tiercel::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Algorithms {
    own: BTreeMap<&'static str, SharedAlgorithm>,
}

impl Algorithms {
    /// Returns the built-in algorithms.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a custom algorithm under its [`name`](Algorithm::name).
    ///
    /// # Errors
    /// [`Error::AlgorithmName`].
    pub fn with(mut self, algorithm: impl Algorithm + Send + Sync + 'static) -> Result<Self, Error> {
        self.add(Arc::new(algorithm))?;
        Ok(self)
    }

    /// Adds a custom algorithm, and returns the value by which connections select it.
    ///
    /// # Errors
    /// [`Error::AlgorithmName`].
    pub fn add(&mut self, algorithm: SharedAlgorithm) -> Result<AlgorithmChoice, Error> {
        let name = algorithm.name();
        if !is_algorithm_name(name) || self.find(name).is_some() {
            return Err(Error::AlgorithmName { name });
        }
        self.own.insert(name, algorithm);
        Ok(AlgorithmChoice::Custom(name))
    }

    /// Returns the algorithm with this name.
    pub fn find(&self, name: &str) -> Option<AlgorithmChoice> {
        let own = || self.own.get_key_value(name).map(|(name, _)| AlgorithmChoice::Custom(name));
        AlgorithmId::from_name(name).map(AlgorithmChoice::BuiltIn).or_else(own)
    }

    /// Returns all names: first the built-in algorithms, then the custom ones in alphabetical order.
    pub fn names(&self) -> Vec<&'static str> {
        AlgorithmId::ALL.map(AlgorithmId::name).into_iter().chain(self.own.keys().copied()).collect()
    }

    /// Returns the custom algorithm with this name.
    pub fn own(&self, name: &str) -> Option<SharedAlgorithm> {
        self.own.get(name).cloned()
    }
}

/// Returns whether a name can be written on a command line and in a node file: letters, digits, dashes,
/// underscores.
fn is_algorithm_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// Shows the names.
impl fmt::Debug for Algorithms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::congestion::{EngineState, Event, Outcome, Prepared};

    /// An algorithm that keeps everything as it is.
    pub(crate) struct Named(pub(crate) &'static str);

    impl Algorithm for Named {
        fn name(&self) -> &'static str {
            self.0
        }
        fn update(&self, event: &Event, _: &mut EngineState, _: &Prepared, outcome: &mut Outcome) {
            outcome.carry_over(event);
        }
    }

    #[test]
    fn a_name_belongs_to_one_algorithm() {
        let mut algorithms = Algorithms::new().with(Named("mine")).expect("a new name");
        assert_eq!(algorithms.find("mine"), Some(AlgorithmChoice::Custom("mine")));
        assert_eq!(algorithms.find("swift"), Some(AlgorithmChoice::BuiltIn(AlgorithmId::Swift)));
        assert_eq!(algorithms.find("other"), None);
        for taken in ["mine", "swift", "", "two words"] {
            let refused = algorithms.add(Arc::new(Named(taken)));
            assert!(matches!(refused, Err(Error::AlgorithmName { name }) if name == taken), "{taken}");
        }
        let algorithms = algorithms.with(Named("also-mine")).expect("a new name");
        assert_eq!(algorithms.names(), ["swift", "dcqcn", "newreno", "fixed", "also-mine", "mine"]);
        assert!(format!("{algorithms:?}").contains("\"also-mine\""));
    }
}
