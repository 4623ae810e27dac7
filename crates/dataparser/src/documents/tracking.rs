//! What accounting tracks: `sacctmgr show tres|wckey|instance --json`.

use sluice_model::accounting::{TresRecord, WckeyRecord};

use crate::envelope::Payload;
use crate::sink::Sink;

/// A listing of trackable resources.
pub struct TrackedResources<'a>(pub &'a [TresRecord]);

/// A listing of workload keys.
pub struct Wckeys<'a>(pub &'a [WckeyRecord]);

/// A listing of cloud instances, of which none are known.
pub struct Instances;

impl Payload for TrackedResources<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("TRES", self.0, |sink, tres| {
            sink.begin_map();
            sink.text("type", &tres.kind);
            sink.text("name", &tres.name);
            sink.uint("id", tres.id);
            sink.uint("count", 0_u64);
            sink.end_map();
        });
    }
}

impl Payload for Wckeys<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("wckeys", self.0, |sink, key| {
            sink.begin_map();
            sink.empty_list("accounting");
            sink.text("cluster", &key.cluster);
            sink.uint("id", key.id);
            sink.text("name", &key.name);
            sink.text("user", &key.user);
            sink.texts("flags", key.deleted.then_some("DELETED"));
            sink.end_map();
        });
    }
}

impl Payload for Instances {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.empty_list("instances");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Meta, to_json};

    fn document(payload: &impl Payload) -> serde_json::Value {
        serde_json::from_str(&to_json(&Meta::default(), payload)).expect("JSON")
    }

    /// Fields of data_parser v0.0.42.
    #[test]
    fn resources_and_keys() {
        let tres = [TresRecord {
            id: 1001,
            kind: "gres".to_string(),
            name: "gpu".to_string(),
        }];
        assert_eq!(
            document(&TrackedResources(&tres))["TRES"],
            serde_json::json!([{"type": "gres", "name": "gpu", "id": 1001, "count": 0}])
        );
        let keys = [WckeyRecord {
            id: 3,
            cluster: "c".to_string(),
            name: "k".to_string(),
            user: "u".to_string(),
            is_default: true,
            deleted: false,
        }];
        assert_eq!(
            document(&Wckeys(&keys))["wckeys"],
            serde_json::json!([{
                "accounting": [], "cluster": "c", "id": 3, "name": "k", "user": "u", "flags": []
            }])
        );
        assert_eq!(document(&Instances)["instances"], serde_json::json!([]));
    }
}
