-- A database of schema revision 0004, as the release that had it wrote it. Never regenerated: old bytes must stay readable.
CREATE FUNCTION public.plume_versions_immutable() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.kind = 'update' AND NEW.memory_id IS NOT DISTINCT FROM OLD.memory_id AND NEW.number IS NOT DISTINCT FROM OLD.number AND NEW.kind IS NOT DISTINCT FROM OLD.kind AND NEW.text_sha256 IS NOT DISTINCT FROM OLD.text_sha256 AND NEW.restores IS NOT DISTINCT FROM OLD.restores AND NEW.forgets IS NOT DISTINCT FROM OLD.forgets AND NEW.span_start IS NOT DISTINCT FROM OLD.span_start AND NEW.span_end IS NOT DISTINCT FROM OLD.span_end AND NEW.created_at IS NOT DISTINCT FROM OLD.created_at AND NEW.parent_hash IS NOT DISTINCT FROM OLD.parent_hash AND NEW.chain_hash IS NOT DISTINCT FROM OLD.chain_hash
    AND NEW.metadata_json = '{}' AND NEW.idempotency_key IS NULL
    AND NEW.erased_by IS NOT NULL AND (OLD.erased_by IS NULL OR NEW.erased_by > OLD.erased_by)
    AND EXISTS (SELECT 1 FROM versions AS eraser
                WHERE eraser.memory_id = OLD.memory_id AND eraser.number = NEW.erased_by
                  AND eraser.kind = 'erase' AND eraser.forgets = OLD.number
                  AND NEW.text = CASE WHEN eraser.span_start IS NULL THEN ''
                      ELSE substr(OLD.text, 1, eraser.span_start::integer) || substr(OLD.text, eraser.span_end::integer + 1) END) THEN RETURN NEW; END IF;
    END IF;
    RAISE EXCEPTION 'versions are immutable: % refused', TG_OP;
    END $$;

CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);

CREATE TABLE public.api_keys (
    id character varying(8) NOT NULL,
    sha256 character varying(64) NOT NULL,
    tenant character varying(64) NOT NULL,
    scopes character varying(200) NOT NULL,
    memory character varying(30),
    writes boolean NOT NULL,
    label character varying(200) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone
);

CREATE TABLE public.derivation_sources (
    memory_id bigint NOT NULL,
    key character varying(64) NOT NULL,
    sha256 character varying(64) NOT NULL
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
    public_id character varying(30) DEFAULT ''::character varying NOT NULL,
    tenant character varying(64) DEFAULT 'default'::character varying NOT NULL,
    tenant_name character varying(200) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT ck_memories_head_number CHECK ((head_number >= 0))
);

CREATE SEQUENCE public.memories_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.memories_id_seq OWNED BY public.memories.id;

CREATE TABLE public.tenants (
    name character varying(64) NOT NULL,
    created_at timestamp with time zone NOT NULL
);

CREATE TABLE public.unfinished_erasures (
    memory_id bigint NOT NULL,
    number bigint NOT NULL
);

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
    span_start bigint,
    span_end bigint,
    erased_by bigint,
    CONSTRAINT ck_versions_erased_by CHECK (((erased_by IS NULL) OR (((kind)::text = 'update'::text) AND (erased_by > number)))),
    CONSTRAINT ck_versions_kind CHECK (((((kind)::text = 'update'::text) AND (restores IS NULL) AND (forgets IS NULL)) OR (((kind)::text = 'rollback'::text) AND (restores IS NOT NULL) AND (restores >= 1) AND (restores < number) AND (forgets IS NULL)) OR ((((kind)::text = 'forget'::text) OR ((kind)::text = 'erase'::text)) AND (forgets IS NOT NULL) AND (forgets >= 1) AND (forgets < number) AND (restores IS NULL)))),
    CONSTRAINT ck_versions_number CHECK ((number >= 1)),
    CONSTRAINT ck_versions_span CHECK ((((span_start IS NULL) AND (span_end IS NULL)) OR ((((kind)::text = 'forget'::text) OR ((kind)::text = 'erase'::text)) AND (span_start IS NOT NULL) AND (span_end IS NOT NULL) AND (span_start >= 0) AND (span_end > span_start))))
);
ALTER TABLE ONLY public.versions ALTER COLUMN text SET STATISTICS 0;
ALTER TABLE ONLY public.versions ALTER COLUMN metadata_json SET STATISTICS 0;
ALTER TABLE ONLY public.versions ALTER COLUMN idempotency_key SET STATISTICS 0;

ALTER TABLE ONLY public.memories ALTER COLUMN id SET DEFAULT nextval('public.memories_id_seq'::regclass);

INSERT INTO public.alembic_version VALUES ('0004');

INSERT INTO public.api_keys VALUES ('k0000001', 'abababababababababababababababababababababababababababababababab', 'acme', 'memory:read memory:write', NULL, true, 'löst', '2026-03-03 08:00:00.000001+00', NULL, '2026-03-03 09:00:00+00', NULL);

INSERT INTO public.derivation_sources VALUES (1, 'abababababababababababababababababababababababababababababababab', 'cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd');

INSERT INTO public.derivations VALUES ('abababababababababababababababababababababababababababababababab', 'factors', 'cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd', 10, '2026-03-02 00:00:00+00');

INSERT INTO public.memories VALUES (3, 'empty', '2026-03-01 22:00:00.00007+00', 0, '0000000000000000000000000000000000000000000000000000000000000000', NULL, NULL, 'mem_00000000000000000000000003', 'default', 'empty');
INSERT INTO public.memories VALUES (1, 'alice', '2026-03-01 13:00:00.000007+00', 11, 'f4a3a07e17d0ffa2acc35a4e921d3065553c1db10d9cb5dfb6facd3ee98f3225', NULL, NULL, 'mem_00000000000000000000000001', 'default', 'alice');
INSERT INTO public.memories VALUES (2, 'what-if', '2026-03-01 21:00:00.000063+00', 10, '48092b093954e56cd47af4dcb43f375fa614dfc5de85eeeb614b1a58d89c2056', 'alice', 7, 'mem_00000000000000000000000002', 'default', 'what-if');

INSERT INTO public.tenants VALUES ('acme', '2026-03-03 08:00:00+00');
INSERT INTO public.tenants VALUES ('default', '2026-03-02 08:00:00+00');

INSERT INTO public.unfinished_erasures VALUES (1, 11);
INSERT INTO public.unfinished_erasures VALUES (2, 10);

INSERT INTO public.versions VALUES (1, 1, 'update', 'Alice löst 漢字 🎉; it''s "hard".', '6008171344f27da23e4820681bf11b4072276d54ecf76c5916ec5f3b7d68c010', NULL, '{"a":{"\u00e9":1.5},"b":[1,null]}', '2026-03-01 14:00:00.000014+00', 'k1', '0000000000000000000000000000000000000000000000000000000000000000', 'c2a661efef1ea60056e2978c0d696adef74c188c1ec1bf9c9fb2669f3dc4625e', NULL, NULL, NULL, NULL);
INSERT INTO public.versions VALUES (1, 4, 'rollback', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 2, '{"why":"wrong"}', '2026-03-01 17:00:00.000035+00', NULL, '20170b28f7b03a67d96cdb9e84be8a93c2eb5ff8121a14e9de20c477ca740728', '5aca0900129d2c5f2149fbf51cef2fa2d0b6584b2dd7cc665a690169c9b01018', NULL, NULL, NULL, NULL);
INSERT INTO public.versions VALUES (1, 5, 'update', 'Alice lives in Chur.', 'd75ad45e076c7c82234932f5822258278b0abd2dd7128d4c52376dec0111c9e9', NULL, '{}', '2026-03-01 18:00:00.000042+00', NULL, '5aca0900129d2c5f2149fbf51cef2fa2d0b6584b2dd7cc665a690169c9b01018', 'a6e17b8956c8c1a9fbd8db86011e04a54b0b8aa6ba83dc1c66fa71ab91b3a704', NULL, NULL, NULL, NULL);
INSERT INTO public.versions VALUES (1, 6, 'forget', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', NULL, '{"reason":"it ran away"}', '2026-03-01 19:00:00.000049+00', 'k6', 'a6e17b8956c8c1a9fbd8db86011e04a54b0b8aa6ba83dc1c66fa71ab91b3a704', 'eddee592ffde17fa6e4dcee3dc6031810f4acb49c169d2c21756100ccac1b62c', 2, 21, 35, NULL);
INSERT INTO public.versions VALUES (2, 1, 'update', 'Alice löst 漢字 🎉; it''s "hard".', '6008171344f27da23e4820681bf11b4072276d54ecf76c5916ec5f3b7d68c010', NULL, '{"a":{"\u00e9":1.5},"b":[1,null]}', '2026-03-01 14:00:00.000014+00', 'k1', '0000000000000000000000000000000000000000000000000000000000000000', 'c2a661efef1ea60056e2978c0d696adef74c188c1ec1bf9c9fb2669f3dc4625e', NULL, NULL, NULL, NULL);
INSERT INTO public.versions VALUES (2, 4, 'rollback', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 2, '{"why":"wrong"}', '2026-03-01 17:00:00.000035+00', NULL, '20170b28f7b03a67d96cdb9e84be8a93c2eb5ff8121a14e9de20c477ca740728', '5aca0900129d2c5f2149fbf51cef2fa2d0b6584b2dd7cc665a690169c9b01018', NULL, NULL, NULL, NULL);
INSERT INTO public.versions VALUES (2, 5, 'update', 'Alice lives in Chur.', 'd75ad45e076c7c82234932f5822258278b0abd2dd7128d4c52376dec0111c9e9', NULL, '{}', '2026-03-01 18:00:00.000042+00', NULL, '5aca0900129d2c5f2149fbf51cef2fa2d0b6584b2dd7cc665a690169c9b01018', 'a6e17b8956c8c1a9fbd8db86011e04a54b0b8aa6ba83dc1c66fa71ab91b3a704', NULL, NULL, NULL, NULL);
INSERT INTO public.versions VALUES (2, 6, 'forget', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', NULL, '{"reason":"it ran away"}', '2026-03-01 19:00:00.000049+00', 'k6', 'a6e17b8956c8c1a9fbd8db86011e04a54b0b8aa6ba83dc1c66fa71ab91b3a704', 'eddee592ffde17fa6e4dcee3dc6031810f4acb49c169d2c21756100ccac1b62c', 2, 21, 35, NULL);
INSERT INTO public.versions VALUES (1, 8, 'erase', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', NULL, '{"erased":{"chain_hash":"ba97e2b8c30e8cd4d9adce5023583ccfa8e0d9392b0aad93a843d4ab7bb2ace6","created_at":"2026-03-01T20:00:00.000056Z","left_sha256":"888c74b62674769a36bf06a0cc1e5246c9724daf9d1feecfcdb5a3764dc48895","text_sha256":"4c25c5744c71e9fb680cc12bfc48df156a338e6930e7cf21da73e485df5ed327"},"reason":"asked for"}', '2026-03-01 23:00:00.000077+00', NULL, 'ba97e2b8c30e8cd4d9adce5023583ccfa8e0d9392b0aad93a843d4ab7bb2ace6', '8c0e5418f60e2e8a6500a7893cb0b3d0b0365ceb910dec8bc478eb1f30319cae', 7, 23, 37, NULL);
INSERT INTO public.versions VALUES (1, 7, 'update', 'Alice has a dog. It is aged 7.', '4c25c5744c71e9fb680cc12bfc48df156a338e6930e7cf21da73e485df5ed327', NULL, '{}', '2026-03-01 20:00:00.000056+00', NULL, 'eddee592ffde17fa6e4dcee3dc6031810f4acb49c169d2c21756100ccac1b62c', 'ba97e2b8c30e8cd4d9adce5023583ccfa8e0d9392b0aad93a843d4ab7bb2ace6', NULL, NULL, NULL, 8);
INSERT INTO public.versions VALUES (2, 8, 'erase', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', NULL, '{"erased":{"chain_hash":"ba97e2b8c30e8cd4d9adce5023583ccfa8e0d9392b0aad93a843d4ab7bb2ace6","created_at":"2026-03-01T20:00:00.000056Z","left_sha256":"888c74b62674769a36bf06a0cc1e5246c9724daf9d1feecfcdb5a3764dc48895","text_sha256":"4c25c5744c71e9fb680cc12bfc48df156a338e6930e7cf21da73e485df5ed327"}}', '2026-03-02 00:00:00.000084+00', NULL, 'ba97e2b8c30e8cd4d9adce5023583ccfa8e0d9392b0aad93a843d4ab7bb2ace6', '009a007a0a196c9650bb36c678669ce74cdc1f2d2ab98768088fcf52901964ca', 7, 23, 37, NULL);
INSERT INTO public.versions VALUES (2, 7, 'update', 'Alice has a dog. It is aged 7.', '4c25c5744c71e9fb680cc12bfc48df156a338e6930e7cf21da73e485df5ed327', NULL, '{}', '2026-03-01 20:00:00.000056+00', NULL, 'eddee592ffde17fa6e4dcee3dc6031810f4acb49c169d2c21756100ccac1b62c', 'ba97e2b8c30e8cd4d9adce5023583ccfa8e0d9392b0aad93a843d4ab7bb2ace6', NULL, NULL, NULL, 8);
INSERT INTO public.versions VALUES (2, 9, 'erase', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', NULL, '{"erased":{"chain_hash":"20170b28f7b03a67d96cdb9e84be8a93c2eb5ff8121a14e9de20c477ca740728","created_at":"2026-03-01T16:00:00.000028Z","left_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","text_sha256":"895f5f080628e1c1c4adc38cbe31234c6f0c57205bad7005d80bd1f4b27f4231"}}', '2026-03-02 01:00:00.000091+00', NULL, '009a007a0a196c9650bb36c678669ce74cdc1f2d2ab98768088fcf52901964ca', '434ef2ba701c20e9a81dca8cfe400abccdcc87a51e1ad067ee9eb63fbfe9887e', 3, NULL, NULL, NULL);
INSERT INTO public.versions VALUES (2, 3, 'update', '', '895f5f080628e1c1c4adc38cbe31234c6f0c57205bad7005d80bd1f4b27f4231', NULL, '{}', '2026-03-01 16:00:00.000028+00', NULL, '5f6e3f56b34423541ff10c7189847c74b585d60d6f3dc54ee9efe2448fd6d9b8', '20170b28f7b03a67d96cdb9e84be8a93c2eb5ff8121a14e9de20c477ca740728', NULL, NULL, NULL, 9);
INSERT INTO public.versions VALUES (1, 9, 'erase', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', NULL, '{"erased":{"chain_hash":"20170b28f7b03a67d96cdb9e84be8a93c2eb5ff8121a14e9de20c477ca740728","created_at":"2026-03-01T16:00:00.000028Z","left_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","text_sha256":"895f5f080628e1c1c4adc38cbe31234c6f0c57205bad7005d80bd1f4b27f4231"}}', '2026-03-02 02:00:00.000098+00', NULL, '8c0e5418f60e2e8a6500a7893cb0b3d0b0365ceb910dec8bc478eb1f30319cae', '49b8ca728b648612ea384a859271dc06dd5b03db3fc577ee45dd2e9501f04105', 3, NULL, NULL, NULL);
INSERT INTO public.versions VALUES (1, 3, 'update', '', '895f5f080628e1c1c4adc38cbe31234c6f0c57205bad7005d80bd1f4b27f4231', NULL, '{}', '2026-03-01 16:00:00.000028+00', NULL, '5f6e3f56b34423541ff10c7189847c74b585d60d6f3dc54ee9efe2448fd6d9b8', '20170b28f7b03a67d96cdb9e84be8a93c2eb5ff8121a14e9de20c477ca740728', NULL, NULL, NULL, 9);
INSERT INTO public.versions VALUES (1, 10, 'update', 'Alice paints.', '6fbd33d30cd79d4322f8e4fddf29106ed05e2f0da8c87f539c33a65ed22f697c', NULL, '{}', '2026-03-02 03:00:00.000105+00', NULL, '49b8ca728b648612ea384a859271dc06dd5b03db3fc577ee45dd2e9501f04105', '9c3ce33416c586ad8e2aa0b462195ef0ea6d4bed0feb536e884fccc0fcb37267', NULL, NULL, NULL, NULL);
INSERT INTO public.versions VALUES (1, 11, 'erase', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', NULL, '{"erased":{"chain_hash":"5f6e3f56b34423541ff10c7189847c74b585d60d6f3dc54ee9efe2448fd6d9b8","created_at":"2026-03-01T15:00:00.000021Z","left_sha256":"bcffdd31cd5203a8598f516a17ffdfec2949deecf55a3ea327879a2586d21237","text_sha256":"cd13b3a77b958ee08283c6005659650eedd20a06daf4ae2051e474bf5b7af69a"}}', '2026-03-02 04:00:00.000112+00', NULL, '9c3ce33416c586ad8e2aa0b462195ef0ea6d4bed0feb536e884fccc0fcb37267', 'f4a3a07e17d0ffa2acc35a4e921d3065553c1db10d9cb5dfb6facd3ee98f3225', 2, 0, 20, NULL);
INSERT INTO public.versions VALUES (1, 2, 'update', '
She has a cat.', 'cd13b3a77b958ee08283c6005659650eedd20a06daf4ae2051e474bf5b7af69a', NULL, '{}', '2026-03-01 15:00:00.000021+00', NULL, 'c2a661efef1ea60056e2978c0d696adef74c188c1ec1bf9c9fb2669f3dc4625e', '5f6e3f56b34423541ff10c7189847c74b585d60d6f3dc54ee9efe2448fd6d9b8', NULL, NULL, NULL, 11);
INSERT INTO public.versions VALUES (2, 10, 'erase', '', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', NULL, '{"erased":{"chain_hash":"5f6e3f56b34423541ff10c7189847c74b585d60d6f3dc54ee9efe2448fd6d9b8","created_at":"2026-03-01T15:00:00.000021Z","left_sha256":"bcffdd31cd5203a8598f516a17ffdfec2949deecf55a3ea327879a2586d21237","text_sha256":"cd13b3a77b958ee08283c6005659650eedd20a06daf4ae2051e474bf5b7af69a"}}', '2026-03-02 05:00:00.000119+00', NULL, '434ef2ba701c20e9a81dca8cfe400abccdcc87a51e1ad067ee9eb63fbfe9887e', '48092b093954e56cd47af4dcb43f375fa614dfc5de85eeeb614b1a58d89c2056', 2, 0, 20, NULL);
INSERT INTO public.versions VALUES (2, 2, 'update', '
She has a cat.', 'cd13b3a77b958ee08283c6005659650eedd20a06daf4ae2051e474bf5b7af69a', NULL, '{}', '2026-03-01 15:00:00.000021+00', NULL, 'c2a661efef1ea60056e2978c0d696adef74c188c1ec1bf9c9fb2669f3dc4625e', '5f6e3f56b34423541ff10c7189847c74b585d60d6f3dc54ee9efe2448fd6d9b8', NULL, NULL, NULL, 10);

SELECT pg_catalog.setval('public.memories_id_seq', 3, true);

ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.derivation_sources
    ADD CONSTRAINT derivation_sources_pkey PRIMARY KEY (memory_id, key, sha256);

ALTER TABLE ONLY public.derivations
    ADD CONSTRAINT derivations_pkey PRIMARY KEY (key);

ALTER TABLE ONLY public.memories
    ADD CONSTRAINT memories_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.unfinished_erasures
    ADD CONSTRAINT unfinished_erasures_pkey PRIMARY KEY (memory_id, number);

ALTER TABLE ONLY public.memories
    ADD CONSTRAINT uq_memories_name UNIQUE (name);

ALTER TABLE ONLY public.versions
    ADD CONSTRAINT uq_versions_idempotency_key UNIQUE (memory_id, idempotency_key);

ALTER TABLE ONLY public.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (memory_id, number);

CREATE INDEX ix_derivation_sources_key ON public.derivation_sources USING btree (key);

CREATE UNIQUE INDEX ix_memories_public_id ON public.memories USING btree (public_id);

CREATE UNIQUE INDEX ix_memories_tenant ON public.memories USING btree (tenant, tenant_name);

CREATE INDEX ix_versions_created_at ON public.versions USING btree (memory_id, created_at, number);

CREATE INDEX ix_versions_erasures ON public.versions USING btree (memory_id, number) WHERE ((kind)::text = 'erase'::text);

CREATE INDEX ix_versions_undos ON public.versions USING btree (memory_id, number, kind, restores, forgets, span_start, span_end) WHERE ((kind)::text <> 'update'::text);

CREATE TRIGGER versions_no_change BEFORE DELETE OR UPDATE ON public.versions FOR EACH ROW EXECUTE FUNCTION public.plume_versions_immutable();

CREATE TRIGGER versions_no_truncate BEFORE TRUNCATE ON public.versions FOR EACH STATEMENT EXECUTE FUNCTION public.plume_versions_immutable();

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT fk_api_keys_tenant FOREIGN KEY (tenant) REFERENCES public.tenants(name);

ALTER TABLE ONLY public.derivation_sources
    ADD CONSTRAINT fk_derivation_sources_memory_id FOREIGN KEY (memory_id) REFERENCES public.memories(id);

ALTER TABLE ONLY public.unfinished_erasures
    ADD CONSTRAINT fk_unfinished_erasures_memory_id FOREIGN KEY (memory_id) REFERENCES public.memories(id);

ALTER TABLE ONLY public.versions
    ADD CONSTRAINT fk_versions_memory_id FOREIGN KEY (memory_id) REFERENCES public.memories(id);
