// Neither is compiled in: the list is checked all the same.
#![allow(unexpected_cfgs, reason = "these features exist nowhere")]

tenure::workers! {
    fn workers(context: &()) {
        "billing" = 1_840_000_100, feature "billing", toggle "BILLING_ENABLED" => Billing;
        "mailing" = 1_840_000_100, feature "mailing", toggle "MAILING_ENABLED" => Mailing;
    }
}

fn main() {}
