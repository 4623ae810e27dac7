//! The program behind sbatch, srun, squeue and the others: it acts as what it is called.

fn main() {
    let arguments: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    std::process::exit(sluice_cli::commands::run(&arguments));
}
