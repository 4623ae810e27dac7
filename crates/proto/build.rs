//! Compiles `proto/sluice/v1/*.proto` with protox, so that nobody has to install protoc, and generates messages, clients
//! and servers from the result.
//!
//! Maps become `BTreeMap`: what is printed must not depend on a hash.

use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let folder = root.join("sluice/v1");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
    // The order of a folder is the file system's; generated code should not depend on it.
    files.sort();
    let mut descriptors = protox::compile(&files, [&root])?;
    keep_jobs_encoded(&mut descriptors);
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        // Without it `AgentsClient::connect` would be both the constructor and the call; clients are made from a channel.
        .build_transport(false)
        .btree_map(".")
        .bytes(".sluice.v1.JobsChunk.jobs")
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    Ok(())
}

/// In our own code the jobs of a chunk stay encoded: the controller encodes each job once and sends the same bytes to every
/// reader. On the wire a message field and a field of bytes are the same.
fn keep_jobs_encoded(descriptors: &mut prost_types::FileDescriptorSet) {
    use prost_types::field_descriptor_proto::Type;
    let messages = descriptors
        .file
        .iter_mut()
        .flat_map(|file| &mut file.message_type);
    for message in messages.filter(|message| message.name.as_deref() == Some("JobsChunk")) {
        for field in &mut message.field {
            if field.name.as_deref() == Some("jobs") {
                field.set_type(Type::Bytes);
                field.type_name = None;
            }
        }
    }
}
