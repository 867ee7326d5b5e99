use tenure::Role;

const BILLING: Role = Role::new("Billing!", 1_840_000_100);

fn main() {
    let _used = BILLING;
}
