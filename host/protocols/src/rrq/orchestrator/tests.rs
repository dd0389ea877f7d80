mod captured;
mod fixture;
mod rules;
