-- What each node says of the components that are deployed, as JSON: by name, the revision that it has taken in,
-- and why it cannot run it. It changes with deploys alone.
ALTER TABLE host_cards ADD COLUMN components text NOT NULL DEFAULT '';
