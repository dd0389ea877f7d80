mod bad_input;
mod captured;
mod fixture;
mod rules;
