//! The pending queue: what keeps a job from being considered at all, apart from resources.

pub mod eligibility;
