//! The names that files on a node may have.

/// Longest name of a file or a directory, longest path, bytes, and most names in a path.
pub const LONGEST_NAME: usize = 200;
const LONGEST_PATH: usize = 1000;
const DEEPEST_PATH: usize = 32;

/// Returns whether a path consists of names that files on a node may have.
pub fn is_file_name(path: &str) -> bool {
    let plain = |part: &str| {
        let whole = !part.is_empty() && part.len() <= LONGEST_NAME && part != "." && part != "..";
        whole && !part.contains('\\') && !part.contains(char::is_control) && !is_part(part)
    };
    path.split('/').all(plain) && path.split('/').count() <= DEEPEST_PATH && path.len() <= LONGEST_PATH
}

/// Returns whether a name is that of any `.part` file.
pub fn is_part(name: &str) -> bool {
    let number = name
        .strip_prefix('.')
        .and_then(|rest| rest.strip_suffix(".part"))
        .and_then(|rest| rest.rsplit_once('.'));
    number
        .is_some_and(|(_, number)| number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
