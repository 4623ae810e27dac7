//! `--constraint`: the expression over node features.
//!
//! Pure text work and matching. Rules: without parentheses the operators are read strictly from left to right; `&` binds no
//! tighter than `|`; `[a|b]` means that all nodes share one and the same alternative; `a*4` means that at least four of the
//! nodes have `a`; inside brackets `&` needs a count on each term. Invariant: at most one bracket group. Source: `sbatch(1)` (--constraint).

use std::collections::BTreeSet;

/// A predicate over the features of one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FeatureExpr {
    /// The node has this feature.
    Feature(String),
    /// Both hold.
    And(Box<FeatureExpr>, Box<FeatureExpr>),
    /// One holds.
    Or(Box<FeatureExpr>, Box<FeatureExpr>),
}

impl FeatureExpr {
    /// True for a node with these features.
    #[must_use]
    pub fn matches(&self, features: &[String]) -> bool {
        match self {
            Self::Feature(name) => features.iter().any(|f| f == name),
            Self::And(a, b) => a.matches(features) && b.matches(features),
            Self::Or(a, b) => a.matches(features) || b.matches(features),
        }
    }

    fn collect_names<'a>(&'a self, names: &mut BTreeSet<&'a str>) {
        match self {
            Self::Feature(name) => {
                names.insert(name);
            }
            Self::And(a, b) | Self::Or(a, b) => {
                a.collect_names(names);
                b.collect_names(names);
            }
        }
    }
}

/// A whole constraint.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraint {
    /// Holds on every node.
    pub filter: Option<FeatureExpr>,
    /// Matching OR: one and the same of these holds on every node; empty = no such group.
    pub alternatives: Vec<FeatureExpr>,
    /// At least so many of the nodes satisfy the term.
    pub counted: Vec<(FeatureExpr, u32)>,
}

/// A constraint that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid constraint \"{text}\": {why}")]
pub struct ConstraintError {
    /// What was given.
    pub text: String,
    /// What is wrong.
    pub why: &'static str,
}

/// Longest constraint, in bytes.
const BYTES_MAX: usize = 4_096;

/// Most parentheses within parentheses.
const DEPTH_MAX: u32 = 64;

impl Constraint {
    /// Reads a constraint.
    ///
    /// # Errors
    /// Empty names, unbalanced brackets, two bracket groups, an alternative between counted terms.
    pub fn parse(text: &str) -> Result<Self, ConstraintError> {
        let error = |why| ConstraintError {
            text: text.to_owned(),
            why,
        };
        // What is built here is walked recursively: a deep one would end the controller.
        if text.len() > BYTES_MAX {
            return Err(ConstraintError {
                text: text.chars().take(60).collect(),
                why: "it is too long",
            });
        }
        let mut reader = Reader {
            rest: text.trim(),
            in_bracket: false,
            depth: 0,
        };
        let constraint = reader.whole().map_err(error)?;
        if reader.rest.is_empty() {
            Ok(constraint)
        } else {
            Err(error("unexpected text at its end"))
        }
    }

    /// Names of all features in it.
    #[must_use]
    pub fn feature_names(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        let parts = self
            .filter
            .iter()
            .chain(&self.alternatives)
            .chain(self.counted.iter().map(|(e, _)| e));
        for expr in parts {
            expr.collect_names(&mut names);
        }
        names
    }

    /// Nodes that the counted terms need in all.
    #[must_use]
    pub fn counted_nodes(&self) -> u32 {
        self.counted
            .iter()
            .fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    And,
    Or,
}

/// One operand at the outer level.
enum Item {
    Plain(FeatureExpr),
    Counted(FeatureExpr, u32),
    Bracket(Constraint),
}

struct Reader<'a> {
    rest: &'a str,
    in_bracket: bool,
    /// Parentheses that are open.
    depth: u32,
}

type Parsed<T> = Result<T, &'static str>;

impl<'a> Reader<'a> {
    fn take(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn operator(&mut self) -> Option<Operator> {
        if self.take('&') || self.take(',') {
            Some(Operator::And)
        } else if self.take('|') {
            Some(Operator::Or)
        } else {
            None
        }
    }

    fn name(&mut self) -> Parsed<&'a str> {
        let end = self
            .rest
            .find(|c: char| "&|,*()[]".contains(c) || c.is_whitespace())
            .unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if name.is_empty() {
            return Err("a feature name is missing");
        }
        self.rest = rest;
        Ok(name)
    }

    fn count(&mut self) -> Parsed<Option<u32>> {
        if !self.take('*') {
            return Ok(None);
        }
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        match digits.parse::<u32>() {
            Ok(n) if n > 0 => Ok(Some(n)),
            _ => Err("a count after * must be a whole number above 0"),
        }
    }

    /// Feature or parenthesised expression, without counts inside.
    fn operand(&mut self) -> Parsed<FeatureExpr> {
        if self.take('(') {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err("too many parentheses within parentheses");
            }
            let expr = self.chain()?;
            self.depth -= 1;
            return if self.take(')') {
                Ok(expr)
            } else {
                Err("a closing parenthesis is missing")
            };
        }
        Ok(FeatureExpr::Feature(self.name()?.to_owned()))
    }

    fn chain(&mut self) -> Parsed<FeatureExpr> {
        let mut expr = self.operand()?;
        while let Some(operator) = self.operator() {
            expr = join(expr, operator, self.operand()?);
        }
        Ok(expr)
    }

    fn item(&mut self) -> Parsed<Item> {
        if self.take('[') {
            if self.in_bracket {
                return Err("brackets cannot be nested");
            }
            self.in_bracket = true;
            let group = self.bracket()?;
            if !self.take(']') {
                return Err("a closing bracket is missing");
            }
            return match self.count()? {
                None => Ok(Item::Bracket(group)),
                // So many nodes have one of them.
                Some(n) if group.counted.is_empty() => group
                    .alternatives
                    .into_iter()
                    .reduce(|a, b| join(a, Operator::Or, b))
                    .map(|any| Item::Counted(any, n))
                    .ok_or("a feature name is missing"),
                Some(_) => Err("a bracket group with counts inside takes no count"),
            };
        }
        let expr = self.operand()?;
        Ok(match self.count()? {
            Some(n) => Item::Counted(expr, n),
            None => Item::Plain(expr),
        })
    }

    /// Inside brackets: `a|b|c`, or `a*2&b*4`.
    fn bracket(&mut self) -> Parsed<Constraint> {
        let mut constraint = Constraint::default();
        loop {
            let expr = self.operand()?;
            let count = self.count()?;
            match count {
                Some(n) => constraint.counted.push((expr, n)),
                None => constraint.alternatives.push(expr),
            }
            match self.operator() {
                None => break,
                Some(Operator::And) if count.is_none() => {
                    return Err("& inside brackets needs a count on each term");
                }
                Some(Operator::Or) if count.is_some() => {
                    return Err("| inside brackets cannot join counted terms");
                }
                Some(_) => {}
            }
        }
        if !constraint.counted.is_empty() && !constraint.alternatives.is_empty() {
            return Err("& inside brackets needs a count on each term");
        }
        Ok(constraint)
    }

    fn whole(&mut self) -> Parsed<Constraint> {
        let mut constraint = Constraint::default();
        let mut brackets = 0;
        let mut operator = Operator::And;
        let mut first = true;
        loop {
            match self.item()? {
                Item::Plain(expr) => {
                    let joinable =
                        first || operator == Operator::And || constraint.filter.is_some();
                    if !joinable
                        || (operator == Operator::Or
                            && (brackets > 0 || !constraint.counted.is_empty()))
                    {
                        return Err("| cannot join a counted term or a bracket group");
                    }
                    constraint.filter = Some(match constraint.filter.take() {
                        Some(before) => join(before, operator, expr),
                        None => expr,
                    });
                }
                Item::Counted(expr, n) if operator == Operator::And || first => {
                    constraint.counted.push((expr, n))
                }
                Item::Bracket(group) if operator == Operator::And || first => {
                    brackets += 1;
                    constraint.alternatives = group.alternatives;
                    constraint.counted.extend(group.counted);
                }
                _ => return Err("| cannot join a counted term or a bracket group"),
            }
            self.in_bracket = brackets > 0;
            first = false;
            match self.operator() {
                Some(next) => operator = next,
                None => return Ok(constraint),
            }
        }
    }
}

fn join(a: FeatureExpr, operator: Operator, b: FeatureExpr) -> FeatureExpr {
    match operator {
        Operator::And => FeatureExpr::And(Box::new(a), Box::new(b)),
        Operator::Or => FeatureExpr::Or(Box::new(a), Box::new(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, features: &str) -> bool {
        let features: Vec<String> = features.split(',').map(str::to_owned).collect();
        let constraint = Constraint::parse(text).expect("parses");
        constraint.filter.expect("has a filter").matches(&features)
    }

    /// Without this, a user could end the controller with two numbers.
    #[test]
    fn counts_that_no_cluster_has_do_not_overflow() {
        let huge = Constraint::parse("[a*2&b*4294967295]").expect("legal");
        assert_eq!(huge.counted_nodes(), u32::MAX);
    }

    /// Without this, a user could end the controller with parentheses.
    #[test]
    fn deep_and_long_constraints_are_refused() {
        let deep = |levels: usize| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
        assert!(Constraint::parse(&deep(64)).is_ok());
        let error = Constraint::parse(&deep(65)).expect_err("too deep");
        assert_eq!(error.why, "too many parentheses within parentheses");
        assert_eq!(
            Constraint::parse(&deep(100_000)).expect_err("long").why,
            "it is too long"
        );
        assert!(Constraint::parse(&"a&".repeat(100_000)).is_err());
    }

    /// Left to right without precedence, as the manual words it.
    #[test]
    fn reads_left_to_right() {
        // a|b&c = (a OR b) AND c
        assert!(!holds("a|b&c", "a"));
        assert!(holds("a|b&c", "a,c"));
        assert!(holds("a|b&c", "b,c"));
        // a&b|c = (a AND b) OR c
        assert!(holds("a&b|c", "c"));
        assert!(!holds("a&b|c", "a"));
        // Parentheses override: a|(b&c)
        assert!(holds("a|(b&c)", "a"));
        assert!(!holds("a|(b&c)", "b"));
    }

    /// Counts and brackets.
    #[test]
    fn reads_counts_and_brackets() {
        let c = Constraint::parse("[rack1|rack2|rack3]").expect("parses");
        assert_eq!((c.alternatives.len(), c.filter.is_none()), (3, true));
        let c = Constraint::parse("gpu&[rack1|rack2]").expect("parses");
        assert_eq!((c.alternatives.len(), c.filter.is_some()), (2, true));
        let c = Constraint::parse("[a*2&b*4]").expect("parses");
        assert_eq!(c.counted_nodes(), 6);
        // Three nodes that have a or b; the others need c.
        let c = Constraint::parse("[a|b]*3&c").expect("parses");
        assert_eq!((c.counted_nodes(), c.filter.is_some()), (3, true));
        assert!(c.counted[0].0.matches(&["b".to_owned()]));
        assert!(Constraint::parse("[a*2&b*1]*3").is_err());
        let c = Constraint::parse("[(a|b)*1&(c)*2]").expect("parses");
        assert_eq!(c.counted_nodes(), 3);
        let c = Constraint::parse("(a&b)*4").expect("parses");
        assert_eq!(c.counted_nodes(), 4);
        assert_eq!(
            Constraint::parse("a*4&(b|c)")
                .expect("parses")
                .feature_names()
                .into_iter()
                .collect::<String>(),
            "abc"
        );
    }

    /// What is not a constraint is refused.
    #[test]
    fn refuses() {
        for bad in [
            "",
            "a&",
            "|a",
            "a*0",
            "a*x",
            "(a",
            "a)",
            "[a",
            "[a&b]",
            "[a|b]&[c|d]",
            "a*2|b",
            "[a*2|b*3]",
            "a b",
            "[[a|b]|c]",
        ] {
            assert!(Constraint::parse(bad).is_err(), "{bad} was accepted");
        }
    }
}
