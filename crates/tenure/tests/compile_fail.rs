//! Mistakes in a list of workers that the compiler finds. Each would make two leaders, or none.
//!
//! When only the compiler's own words have changed, `TRYBUILD=overwrite just test -E 'binary(compile_fail)'`
//! writes the new ones.

#[test]
fn a_wrong_list_of_workers_does_not_compile() {
    let cases = trybuild::TestCases::new();
    // One that compiles: then all are built, not only checked, and a worker's own ROLE is compared then.
    cases.pass("tests/compile_fail/a_right_list_of_workers.rs");
    cases.compile_fail("tests/compile_fail/a_bad_role_name.rs");
    cases.compile_fail("tests/compile_fail/role_differs_from_its_line.rs");
    cases.compile_fail("tests/compile_fail/two_workers_with_one_key.rs");
    cases.compile_fail("tests/compile_fail/two_workers_with_one_name.rs");
}
