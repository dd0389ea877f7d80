-- What an application needs to enqueue jobs in its own transactions. It can be run again.

CREATE SCHEMA IF NOT EXISTS host;

-- Jobs that the host has not accepted yet. A job that it refuses stays, with the reason.
CREATE TABLE IF NOT EXISTS host.outbox (
    id uuid PRIMARY KEY,
    job jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    refused_at timestamptz,
    problem text
);

CREATE INDEX IF NOT EXISTS outbox_waiting ON host.outbox (id) WHERE refused_at IS NULL;

-- Jobs that the host has accepted and shall cancel.
CREATE TABLE IF NOT EXISTS host.cancels (id uuid PRIMARY KEY);

-- Enqueues a job when the transaction commits, and returns the job's id. `options` are other fields of a job in the
-- host's API, such as {"queue": "mail", "delay_seconds": 60}.
CREATE OR REPLACE FUNCTION host.enqueue(handler text, params jsonb DEFAULT 'null', options jsonb DEFAULT '{}')
RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    new_id uuid;
    new_job jsonb;
BEGIN
    IF handler IS NULL OR handler = '' THEN
        RAISE EXCEPTION 'host.enqueue: handler is empty';
    END IF;
    IF options IS NULL OR jsonb_typeof(options) <> 'object' OR options ?| ARRAY['handler', 'params'] THEN
        RAISE EXCEPTION 'host.enqueue: options must be an object without "handler" and "params"';
    END IF;
    new_job := options || jsonb_build_object('handler', handler, 'params', COALESCE(params, 'null'));
    IF octet_length(new_job::text) > 1048576 THEN
        RAISE EXCEPTION 'host.enqueue: the job has % bytes, more than 1048576', octet_length(new_job::text);
    END IF;
    -- A UUID of version 7, like all ids of jobs.
    new_id := encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
        FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid;
    INSERT INTO host.outbox (id, job) VALUES (new_id, new_job);
    PERFORM pg_notify('host_outbox', '');
    RETURN new_id;
END $$;

-- Cancels a job of host.enqueue when the transaction commits. One that the host has not accepted never runs; one that has
-- ended stays as it is.
CREATE OR REPLACE FUNCTION host.cancel(job_id uuid)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF job_id IS NULL THEN
        RAISE EXCEPTION 'host.cancel: the id is null';
    END IF;
    -- Waits for a host that is accepting the job.
    DELETE FROM host.outbox WHERE id = job_id;
    IF NOT FOUND THEN
        INSERT INTO host.cancels (id) VALUES (job_id) ON CONFLICT DO NOTHING;
        PERFORM pg_notify('host_outbox', '');
    END IF;
END $$;

REVOKE ALL ON SCHEMA host FROM PUBLIC;
REVOKE ALL ON FUNCTION host.enqueue(text, jsonb, jsonb), host.cancel(uuid) FROM PUBLIC;
