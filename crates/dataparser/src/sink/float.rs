//! Text of floating-point numbers: 17 significant digits without trailing zeros, as `%.17g` of the C library prints them, and
//! at least one digit after the point, so that readers see that it is no whole number.

use std::fmt::Write as _;

/// Significant digits: enough for every double to be read back the same.
const DIGITS: i32 = 17;

/// Appends `number` to `text`. Infinity and NaN have no JSON; they become 0.0.
pub(super) fn push_float(text: &mut String, number: f64) {
    if !number.is_finite() || number == 0.0 {
        text.push_str("0.0");
        return;
    }
    let scientific = format!("{number:.*e}", (DIGITS - 1) as usize);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent).max(0) as usize;
        let fixed = format!("{number:.decimals$}");
        let shown = if fixed.contains('.') {
            fixed.trim_end_matches('0').trim_end_matches('.')
        } else {
            &fixed
        };
        text.push_str(shown);
        if !shown.contains('.') {
            text.push_str(".0");
        }
    } else {
        let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(text, "{mantissa}e{sign}{:02}", exponent.abs());
    }
}

#[cfg(test)]
mod tests {
    use super::push_float;

    /// What printf("%.17g") gives, and numbers of a real Slurm's answers.
    #[test]
    fn seventeen_digits() {
        let cases = [
            (0.0, "0.0"),
            (8.0, "8.0"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (2.328_306_437_622_898_5e-10, "2.3283064376228985e-10"),
            (0.983_606_557_377_049_2, "0.98360655737704916"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000.0"),
            (f64::INFINITY, "0.0"),
        ];
        for (number, expected) in cases {
            let mut text = String::new();
            push_float(&mut text, number);
            assert_eq!(text, expected);
        }
    }
}
