-- A database of schema revision 0001, as the release that had it wrote it. Never regenerated: old bytes must stay readable.
CREATE FUNCTION public.plume_versions_immutable() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'versions are immutable: % refused', TG_OP; END $$;

CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);

CREATE TABLE public.derivations (
    key character varying(64) NOT NULL,
    kind character varying(64) NOT NULL,
    sha256 character varying(64) NOT NULL,
    size bigint NOT NULL,
    created_at timestamp with time zone NOT NULL
);

CREATE TABLE public.memories (
    id bigint NOT NULL,
    name character varying(200) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    head_number bigint NOT NULL,
    head_hash character varying(64) NOT NULL,
    origin_name character varying(200),
    origin_version bigint,
    CONSTRAINT ck_memories_head_number CHECK ((head_number >= 0))
);

CREATE SEQUENCE public.memories_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.memories_id_seq OWNED BY public.memories.id;

CREATE TABLE public.versions (
    memory_id bigint NOT NULL,
    number bigint NOT NULL,
    kind character varying(16) NOT NULL,
    text text NOT NULL,
    text_sha256 character varying(64) NOT NULL,
    restores bigint,
    metadata_json text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    idempotency_key character varying(200),
    parent_hash character varying(64) NOT NULL,
    chain_hash character varying(64) NOT NULL,
    CONSTRAINT ck_versions_kind CHECK (((((kind)::text = 'update'::text) AND (restores IS NULL)) OR (((kind)::text = 'rollback'::text) AND (restores IS NOT NULL) AND (restores >= 1) AND (restores < number)))),
    CONSTRAINT ck_versions_number CHECK ((number >= 1))
);

ALTER TABLE ONLY public.memories ALTER COLUMN id SET DEFAULT nextval('public.memories_id_seq'::regclass);

INSERT INTO public.alembic_version VALUES ('0001');

INSERT INTO public.memories VALUES (1, 'alice', '2026-01-01 13:00:00.000007+00', 5, 'e7e3cd5ba1fd3310c3d33ee6c7296c7091e200a71b9250d29b9b89289c5ef67c', NULL, NULL);
INSERT INTO public.memories VALUES (2, 'what-if', '2026-01-01 19:00:00.000049+00', 5, 'df1f853f9b48cc4959567d798e2c417e146d626218498caa901be663df4f2895', 'alice', 4);
INSERT INTO public.memories VALUES (3, 'empty', '2026-01-01 21:00:00.000063+00', 0, '0000000000000000000000000000000000000000000000000000000000000000', NULL, NULL);

INSERT INTO public.versions VALUES (1, 1, 'update', 'Alice löst 漢字 🎉; it''s "hard".', '6008171344f27da23e4820681bf11b4072276d54ecf76c5916ec5f3b7d68c010', NULL, '{"a":{"\u00e9":1.5},"b":[1,null]}', '2026-01-01 14:00:00.000014+00', 'k1', '0000000000000000000000000000000000000000000000000000000000000000', '5ae4aec9a359dd938d981b56d5b0195543424410c011421b64d8fbcf25e470e0');
INSERT INTO public.versions VALUES (1, 2, 'update', 'Alice lives in Bern.
She has a cat.', 'cd13b3a77b958ee08283c6005659650eedd20a06daf4ae2051e474bf5b7af69a', NULL, '{}', '2026-01-01 15:00:00.000021+00', 'k2', '5ae4aec9a359dd938d981b56d5b0195543424410c011421b64d8fbcf25e470e0', '5ca58c55b612a9cbf03c6cdc485ebe035283008d9bf33052dabf51f0fe5c93fe');
INSERT INTO public.versions VALUES (1, 3, 'update', 'Alice lives in Zurich.', '895f5f080628e1c1c4adc38cbe31234c6f0c57205bad7005d80bd1f4b27f4231', NULL, '{}', '2026-01-01 16:00:00.000028+00', NULL, '5ca58c55b612a9cbf03c6cdc485ebe035283008d9bf33052dabf51f0fe5c93fe', '9ef43714592d713121aaf301b55288a876e2ccea09eeac5e56a1b2ca43b5603d');
INSERT INTO public.versions VALUES (1, 4, 'rollback', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 2, '{"why":"wrong"}', '2026-01-01 17:00:00.000035+00', NULL, '9ef43714592d713121aaf301b55288a876e2ccea09eeac5e56a1b2ca43b5603d', '450279c5ae34355fe115274be6a7f7d83fdbf4992b4ca951dc1d41bf1aaa5a90');
INSERT INTO public.versions VALUES (1, 5, 'update', 'Alice lives in Chur.', 'd75ad45e076c7c82234932f5822258278b0abd2dd7128d4c52376dec0111c9e9', NULL, '{}', '2026-01-01 18:00:00.000042+00', NULL, '450279c5ae34355fe115274be6a7f7d83fdbf4992b4ca951dc1d41bf1aaa5a90', 'e7e3cd5ba1fd3310c3d33ee6c7296c7091e200a71b9250d29b9b89289c5ef67c');
INSERT INTO public.versions VALUES (2, 1, 'update', 'Alice löst 漢字 🎉; it''s "hard".', '6008171344f27da23e4820681bf11b4072276d54ecf76c5916ec5f3b7d68c010', NULL, '{"a":{"\u00e9":1.5},"b":[1,null]}', '2026-01-01 14:00:00.000014+00', 'k1', '0000000000000000000000000000000000000000000000000000000000000000', '5ae4aec9a359dd938d981b56d5b0195543424410c011421b64d8fbcf25e470e0');
INSERT INTO public.versions VALUES (2, 2, 'update', 'Alice lives in Bern.
She has a cat.', 'cd13b3a77b958ee08283c6005659650eedd20a06daf4ae2051e474bf5b7af69a', NULL, '{}', '2026-01-01 15:00:00.000021+00', 'k2', '5ae4aec9a359dd938d981b56d5b0195543424410c011421b64d8fbcf25e470e0', '5ca58c55b612a9cbf03c6cdc485ebe035283008d9bf33052dabf51f0fe5c93fe');
INSERT INTO public.versions VALUES (2, 3, 'update', 'Alice lives in Zurich.', '895f5f080628e1c1c4adc38cbe31234c6f0c57205bad7005d80bd1f4b27f4231', NULL, '{}', '2026-01-01 16:00:00.000028+00', NULL, '5ca58c55b612a9cbf03c6cdc485ebe035283008d9bf33052dabf51f0fe5c93fe', '9ef43714592d713121aaf301b55288a876e2ccea09eeac5e56a1b2ca43b5603d');
INSERT INTO public.versions VALUES (2, 4, 'rollback', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 2, '{"why":"wrong"}', '2026-01-01 17:00:00.000035+00', NULL, '9ef43714592d713121aaf301b55288a876e2ccea09eeac5e56a1b2ca43b5603d', '450279c5ae34355fe115274be6a7f7d83fdbf4992b4ca951dc1d41bf1aaa5a90');
INSERT INTO public.versions VALUES (2, 5, 'update', 'Alice lives in Rome.', 'b2b4f8492df09cded22910cbe6b82055922c06aba3f935a98a7edb32b72b3a43', NULL, '{}', '2026-01-01 20:00:00.000056+00', NULL, '450279c5ae34355fe115274be6a7f7d83fdbf4992b4ca951dc1d41bf1aaa5a90', 'df1f853f9b48cc4959567d798e2c417e146d626218498caa901be663df4f2895');

SELECT pg_catalog.setval('public.memories_id_seq', 3, true);

ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);

ALTER TABLE ONLY public.derivations
    ADD CONSTRAINT derivations_pkey PRIMARY KEY (key);

ALTER TABLE ONLY public.memories
    ADD CONSTRAINT memories_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.memories
    ADD CONSTRAINT uq_memories_name UNIQUE (name);

ALTER TABLE ONLY public.versions
    ADD CONSTRAINT uq_versions_idempotency_key UNIQUE (memory_id, idempotency_key);

ALTER TABLE ONLY public.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (memory_id, number);

CREATE INDEX ix_versions_created_at ON public.versions USING btree (memory_id, created_at, number);

CREATE INDEX ix_versions_rollbacks ON public.versions USING btree (memory_id, number, restores) WHERE ((kind)::text = 'rollback'::text);

CREATE TRIGGER versions_no_change BEFORE DELETE OR UPDATE ON public.versions FOR EACH ROW EXECUTE FUNCTION public.plume_versions_immutable();

CREATE TRIGGER versions_no_truncate BEFORE TRUNCATE ON public.versions FOR EACH STATEMENT EXECUTE FUNCTION public.plume_versions_immutable();

ALTER TABLE ONLY public.versions
    ADD CONSTRAINT fk_versions_memory_id FOREIGN KEY (memory_id) REFERENCES public.memories(id);
