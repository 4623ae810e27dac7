//! Rebuilds the crate when a migration is added: `sqlx::migrate!` embeds the folders and cargo does not watch them by itself.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations/sqlite");
    println!("cargo:rerun-if-changed=../../migrations/postgres");
}
