//! Text that `PostgreSQL` can store.

/// The longest error text that is kept, in bytes.
const MAX_BYTES: usize = 4096;

/// Makes any text storable as an error: NUL characters, which `PostgreSQL` has no room for in text,
/// become U+FFFD, and what is longer than 4096 bytes is cut at a character and marked with `…`.
///
/// An escape sequence such as `\u0000`, six characters of text, is left alone.
pub fn storable(text: &str) -> String {
    let text = text.replace('\0', "\u{fffd}");
    if text.len() <= MAX_BYTES {
        return text;
    }
    let end = text.floor_char_boundary(MAX_BYTES - '…'.len_utf8());
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_is_replaced_and_an_escape_sequence_is_left_alone() {
        assert_eq!(storable("a\0b"), "a\u{fffd}b");
        assert_eq!(storable(r"a\u0000b"), r"a\u0000b");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        for offset in 0..4 {
            let text = format!("{}{}", "x".repeat(offset), "é".repeat(MAX_BYTES));
            let stored = storable(&text);
            assert!(stored.len() <= MAX_BYTES && stored.ends_with('…'), "{}", stored.len());
        }
        assert_eq!(storable(&"x".repeat(MAX_BYTES)).len(), MAX_BYTES);
    }
}
