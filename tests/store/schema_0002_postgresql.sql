-- A database of schema revision 0002, as the release that had it wrote it. Never regenerated: old bytes must stay readable.
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
    forgets bigint,
    CONSTRAINT ck_versions_kind CHECK (((((kind)::text = 'update'::text) AND (restores IS NULL) AND (forgets IS NULL)) OR (((kind)::text = 'rollback'::text) AND (restores IS NOT NULL) AND (restores >= 1) AND (restores < number) AND (forgets IS NULL)) OR (((kind)::text = 'forget'::text) AND (forgets IS NOT NULL) AND (forgets >= 1) AND (forgets < number) AND (restores IS NULL)))),
    CONSTRAINT ck_versions_number CHECK ((number >= 1))
);

ALTER TABLE ONLY public.memories ALTER COLUMN id SET DEFAULT nextval('public.memories_id_seq'::regclass);

INSERT INTO public.alembic_version VALUES ('0002');

INSERT INTO public.memories VALUES (1, 'alice', '2026-02-01 13:00:00.000007+00', 7, 'c67308a2a87201efd024b5e2149590527f0815d05bba0085488c94c7920f148d', NULL, NULL);
INSERT INTO public.memories VALUES (2, 'what-if', '2026-02-01 21:00:00.000063+00', 8, '60bf097e6977f061526b977f814619a74c919bfc45341c25bd79918d0535aa75', 'alice', 6);
INSERT INTO public.memories VALUES (3, 'empty', '2026-02-02 00:00:00.000084+00', 0, '0000000000000000000000000000000000000000000000000000000000000000', NULL, NULL);

INSERT INTO public.versions VALUES (1, 1, 'update', 'Alice löst 漢字 🎉; it''s "hard".', '6008171344f27da23e4820681bf11b4072276d54ecf76c5916ec5f3b7d68c010', NULL, '{"a":{"\u00e9":1.5},"b":[1,null]}', '2026-02-01 14:00:00.000014+00', 'k1', '0000000000000000000000000000000000000000000000000000000000000000', '31cf3c524d8e8ef3833f514eb41affe8a0f94406fc0eac20886045a9fda45657', NULL);
INSERT INTO public.versions VALUES (1, 2, 'update', 'Alice lives in Bern.
She has a cat.', 'cd13b3a77b958ee08283c6005659650eedd20a06daf4ae2051e474bf5b7af69a', NULL, '{}', '2026-02-01 15:00:00.000021+00', 'k2', '31cf3c524d8e8ef3833f514eb41affe8a0f94406fc0eac20886045a9fda45657', '6601d143b06d140725855f1edadeb11c3131380dab91351dd64f92f52eabc65e', NULL);
INSERT INTO public.versions VALUES (1, 3, 'update', 'Alice lives in Zurich.', '895f5f080628e1c1c4adc38cbe31234c6f0c57205bad7005d80bd1f4b27f4231', NULL, '{}', '2026-02-01 16:00:00.000028+00', NULL, '6601d143b06d140725855f1edadeb11c3131380dab91351dd64f92f52eabc65e', '484fba30cade43e17c4973c7835914d42b299cc7c4e4dfea4f7b7159c5e4e576', NULL);
INSERT INTO public.versions VALUES (1, 4, 'rollback', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 2, '{"why":"wrong"}', '2026-02-01 17:00:00.000035+00', NULL, '484fba30cade43e17c4973c7835914d42b299cc7c4e4dfea4f7b7159c5e4e576', '895b41978e478b3a44ef31505db70a1509a2dbe9db8813bfbf701a8e401a3fc7', NULL);
INSERT INTO public.versions VALUES (1, 5, 'update', 'Alice lives in Chur.', 'd75ad45e076c7c82234932f5822258278b0abd2dd7128d4c52376dec0111c9e9', NULL, '{}', '2026-02-01 18:00:00.000042+00', NULL, '895b41978e478b3a44ef31505db70a1509a2dbe9db8813bfbf701a8e401a3fc7', '942c5d185ef19a3f23ccd4b90f42fe121f2a0fc0987fe8175ebdca70c46ed02e', NULL);
INSERT INTO public.versions VALUES (1, 6, 'forget', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', NULL, '{"reason":"Alice asked"}', '2026-02-01 19:00:00.000049+00', 'k3', '942c5d185ef19a3f23ccd4b90f42fe121f2a0fc0987fe8175ebdca70c46ed02e', 'cf3542cada045353ba240af1987efbf9a147e7f78d91ca544674b9436e38ec9a', 2);
INSERT INTO public.versions VALUES (1, 7, 'update', 'Alice has a dog.', 'b708ff5794e25ec06b80b46dda2d7031dc5e637549a59d42d021a75dd22ea6d7', NULL, '{}', '2026-02-01 20:00:00.000056+00', NULL, 'cf3542cada045353ba240af1987efbf9a147e7f78d91ca544674b9436e38ec9a', 'c67308a2a87201efd024b5e2149590527f0815d05bba0085488c94c7920f148d', NULL);
INSERT INTO public.versions VALUES (2, 1, 'update', 'Alice löst 漢字 🎉; it''s "hard".', '6008171344f27da23e4820681bf11b4072276d54ecf76c5916ec5f3b7d68c010', NULL, '{"a":{"\u00e9":1.5},"b":[1,null]}', '2026-02-01 14:00:00.000014+00', 'k1', '0000000000000000000000000000000000000000000000000000000000000000', '31cf3c524d8e8ef3833f514eb41affe8a0f94406fc0eac20886045a9fda45657', NULL);
INSERT INTO public.versions VALUES (2, 2, 'update', 'Alice lives in Bern.
She has a cat.', 'cd13b3a77b958ee08283c6005659650eedd20a06daf4ae2051e474bf5b7af69a', NULL, '{}', '2026-02-01 15:00:00.000021+00', 'k2', '31cf3c524d8e8ef3833f514eb41affe8a0f94406fc0eac20886045a9fda45657', '6601d143b06d140725855f1edadeb11c3131380dab91351dd64f92f52eabc65e', NULL);
INSERT INTO public.versions VALUES (2, 3, 'update', 'Alice lives in Zurich.', '895f5f080628e1c1c4adc38cbe31234c6f0c57205bad7005d80bd1f4b27f4231', NULL, '{}', '2026-02-01 16:00:00.000028+00', NULL, '6601d143b06d140725855f1edadeb11c3131380dab91351dd64f92f52eabc65e', '484fba30cade43e17c4973c7835914d42b299cc7c4e4dfea4f7b7159c5e4e576', NULL);
INSERT INTO public.versions VALUES (2, 4, 'rollback', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 2, '{"why":"wrong"}', '2026-02-01 17:00:00.000035+00', NULL, '484fba30cade43e17c4973c7835914d42b299cc7c4e4dfea4f7b7159c5e4e576', '895b41978e478b3a44ef31505db70a1509a2dbe9db8813bfbf701a8e401a3fc7', NULL);
INSERT INTO public.versions VALUES (2, 5, 'update', 'Alice lives in Chur.', 'd75ad45e076c7c82234932f5822258278b0abd2dd7128d4c52376dec0111c9e9', NULL, '{}', '2026-02-01 18:00:00.000042+00', NULL, '895b41978e478b3a44ef31505db70a1509a2dbe9db8813bfbf701a8e401a3fc7', '942c5d185ef19a3f23ccd4b90f42fe121f2a0fc0987fe8175ebdca70c46ed02e', NULL);
INSERT INTO public.versions VALUES (2, 6, 'forget', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', NULL, '{"reason":"Alice asked"}', '2026-02-01 19:00:00.000049+00', 'k3', '942c5d185ef19a3f23ccd4b90f42fe121f2a0fc0987fe8175ebdca70c46ed02e', 'cf3542cada045353ba240af1987efbf9a147e7f78d91ca544674b9436e38ec9a', 2);
INSERT INTO public.versions VALUES (2, 7, 'forget', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', NULL, '{}', '2026-02-01 22:00:00.00007+00', NULL, 'cf3542cada045353ba240af1987efbf9a147e7f78d91ca544674b9436e38ec9a', 'dd9068bf166b3ef4c9dddd9b17a3fb61b38a39498d534d70aab3d3d934c2496f', 5);
INSERT INTO public.versions VALUES (2, 8, 'update', 'Alice lives in Rome.', 'b2b4f8492df09cded22910cbe6b82055922c06aba3f935a98a7edb32b72b3a43', NULL, '{}', '2026-02-01 23:00:00.000077+00', NULL, 'dd9068bf166b3ef4c9dddd9b17a3fb61b38a39498d534d70aab3d3d934c2496f', '60bf097e6977f061526b977f814619a74c919bfc45341c25bd79918d0535aa75', NULL);

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

CREATE INDEX ix_versions_undos ON public.versions USING btree (memory_id, number, kind, restores, forgets) WHERE ((kind)::text <> 'update'::text);

CREATE TRIGGER versions_no_change BEFORE DELETE OR UPDATE ON public.versions FOR EACH ROW EXECUTE FUNCTION public.plume_versions_immutable();

CREATE TRIGGER versions_no_truncate BEFORE TRUNCATE ON public.versions FOR EACH STATEMENT EXECUTE FUNCTION public.plume_versions_immutable();

ALTER TABLE ONLY public.versions
    ADD CONSTRAINT fk_versions_memory_id FOREIGN KEY (memory_id) REFERENCES public.memories(id);
