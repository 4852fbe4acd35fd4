//! Reduces the output of a program to one sentence.

/// Largest length of a sentence in a table, in characters.
const LONGEST_SENTENCE: usize = 200;

/// Returns the sentence of a node's output for display: the line with its error, or the last line if there is
/// none. If the output contains a verifier's log, it returns the last line before the statistics, which says what
/// the verifier refused.
pub(crate) fn sentence(log: &str) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    let error = lines.iter().find_map(|line| line.strip_prefix("error:"));
    let all = error.map_or_else(|| last_line(log.as_bytes()), |line| line.trim().to_owned());
    let end =
        lines.iter().position(|line| line.starts_with("verification time") || line.starts_with("processed "));
    let all = match (all.split_once("Verifier output:"), end) {
        (Some((before, first)), Some(end)) if end > 0 => {
            let reason = lines[end - 1].rsplit("Verifier output:").next().unwrap_or(first).trim();
            let walked = lines.iter().find_map(|line| line.strip_prefix("processed ")?.split(' ').next());
            let walked = walked.map_or(String::new(), |walked| format!(" (after {walked} instructions)"));
            format!("{} The verifier: {reason}{walked}", before.trim())
        }
        _ => all,
    };
    match all.char_indices().nth(LONGEST_SENTENCE) {
        Some((end, _)) => format!("{}...", &all[..end]),
        None => all,
    }
}

/// Returns the last line that is not empty.
pub(crate) fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it says nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_is_the_error_or_the_last_line() {
        assert_eq!(sentence("INFO x\nerror: too old\n  log of the verifier\n"), "too old");
        assert_eq!(sentence("INFO x\nends here\n\n"), "ends here");
    }

    #[test]
    fn the_sentence_of_a_verifier_is_what_it_did_not_like() {
        let long =
            "error: refused. Verifier output: 0: r1\n1: exit\nno such opcode\nverification time 7 usec\n";
        assert_eq!(sentence(long), "refused. The verifier: no such opcode");
        let short = "error: refused. Verifier output: unknown opcode\nprocessed 0 insns (limit 1000000)\n";
        assert_eq!(sentence(short), "refused. The verifier: unknown opcode (after 0 instructions)");
    }

    #[test]
    fn a_long_sentence_is_cut() {
        assert_eq!(sentence(&"x".repeat(1000)).len(), LONGEST_SENTENCE + 3);
    }

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        assert_eq!(last_line(b"one\ntwo\n\n"), "two");
        assert_eq!(last_line(b""), "it says nothing");
    }
}
