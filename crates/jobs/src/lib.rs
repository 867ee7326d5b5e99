//! The job store that Tenure's three workers share
