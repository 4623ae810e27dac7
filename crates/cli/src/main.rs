//! The program behind sbatch, srun, squeue and the others: it acts as what it is called.

/// A listing is a hundred thousand small pieces, made and dropped at once: a fifth of its time goes to the allocator of libc.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    std::process::exit(sluice_cli::commands::run(&arguments));
}
