-- A database of schema revision 0001, as the release that had it wrote it. Never regenerated: old bytes must stay readable.
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE derivations (
	"key" VARCHAR(64) NOT NULL, 
	kind VARCHAR(64) NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	size BIGINT NOT NULL, 
	created_at DATETIME NOT NULL, 
	PRIMARY KEY ("key")
);
CREATE TABLE memories (
	id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	created_at DATETIME NOT NULL, 
	head_number BIGINT NOT NULL, 
	head_hash VARCHAR(64) NOT NULL, 
	origin_name VARCHAR(200), 
	origin_version BIGINT, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_memories_name UNIQUE (name), 
	CONSTRAINT ck_memories_head_number CHECK (head_number >= 0)
);
INSERT INTO "memories" VALUES(1,'alice','2026-01-01 13:00:00.000007',5,'e7e3cd5ba1fd3310c3d33ee6c7296c7091e200a71b9250d29b9b89289c5ef67c',NULL,NULL);
INSERT INTO "memories" VALUES(2,'what-if','2026-01-01 19:00:00.000049',5,'df1f853f9b48cc4959567d798e2c417e146d626218498caa901be663df4f2895','alice',4);
INSERT INTO "memories" VALUES(3,'empty','2026-01-01 21:00:00.000063',0,'0000000000000000000000000000000000000000000000000000000000000000',NULL,NULL);
CREATE TABLE versions (
	memory_id BIGINT NOT NULL, 
	number BIGINT NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	text TEXT NOT NULL, 
	text_sha256 VARCHAR(64) NOT NULL, 
	restores BIGINT, 
	metadata_json TEXT NOT NULL, 
	created_at DATETIME NOT NULL, 
	idempotency_key VARCHAR(200), 
	parent_hash VARCHAR(64) NOT NULL, 
	chain_hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (memory_id, number), 
	CONSTRAINT fk_versions_memory_id FOREIGN KEY(memory_id) REFERENCES memories (id), 
	CONSTRAINT uq_versions_idempotency_key UNIQUE (memory_id, idempotency_key), 
	CONSTRAINT ck_versions_number CHECK (number >= 1), 
	CONSTRAINT ck_versions_kind CHECK ((kind = 'update' AND restores IS NULL) OR (kind = 'rollback' AND restores IS NOT NULL AND restores >= 1 AND restores < number))
);
INSERT INTO "versions" VALUES(1,1,'update','Alice löst 漢字 🎉; it''s "hard".','6008171344f27da23e4820681bf11b4072276d54ecf76c5916ec5f3b7d68c010',NULL,'{"a":{"\u00e9":1.5},"b":[1,null]}','2026-01-01 14:00:00.000014','k1','0000000000000000000000000000000000000000000000000000000000000000','5ae4aec9a359dd938d981b56d5b0195543424410c011421b64d8fbcf25e470e0');
INSERT INTO "versions" VALUES(1,2,'update','Alice lives in Bern.
She has a cat.','cd13b3a77b958ee08283c6005659650eedd20a06daf4ae2051e474bf5b7af69a',NULL,'{}','2026-01-01 15:00:00.000021','k2','5ae4aec9a359dd938d981b56d5b0195543424410c011421b64d8fbcf25e470e0','5ca58c55b612a9cbf03c6cdc485ebe035283008d9bf33052dabf51f0fe5c93fe');
INSERT INTO "versions" VALUES(1,3,'update','Alice lives in Zurich.','895f5f080628e1c1c4adc38cbe31234c6f0c57205bad7005d80bd1f4b27f4231',NULL,'{}','2026-01-01 16:00:00.000028',NULL,'5ca58c55b612a9cbf03c6cdc485ebe035283008d9bf33052dabf51f0fe5c93fe','9ef43714592d713121aaf301b55288a876e2ccea09eeac5e56a1b2ca43b5603d');
INSERT INTO "versions" VALUES(1,4,'rollback','','e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',2,'{"why":"wrong"}','2026-01-01 17:00:00.000035',NULL,'9ef43714592d713121aaf301b55288a876e2ccea09eeac5e56a1b2ca43b5603d','450279c5ae34355fe115274be6a7f7d83fdbf4992b4ca951dc1d41bf1aaa5a90');
INSERT INTO "versions" VALUES(1,5,'update','Alice lives in Chur.','d75ad45e076c7c82234932f5822258278b0abd2dd7128d4c52376dec0111c9e9',NULL,'{}','2026-01-01 18:00:00.000042',NULL,'450279c5ae34355fe115274be6a7f7d83fdbf4992b4ca951dc1d41bf1aaa5a90','e7e3cd5ba1fd3310c3d33ee6c7296c7091e200a71b9250d29b9b89289c5ef67c');
INSERT INTO "versions" VALUES(2,1,'update','Alice löst 漢字 🎉; it''s "hard".','6008171344f27da23e4820681bf11b4072276d54ecf76c5916ec5f3b7d68c010',NULL,'{"a":{"\u00e9":1.5},"b":[1,null]}','2026-01-01 14:00:00.000014','k1','0000000000000000000000000000000000000000000000000000000000000000','5ae4aec9a359dd938d981b56d5b0195543424410c011421b64d8fbcf25e470e0');
INSERT INTO "versions" VALUES(2,2,'update','Alice lives in Bern.
She has a cat.','cd13b3a77b958ee08283c6005659650eedd20a06daf4ae2051e474bf5b7af69a',NULL,'{}','2026-01-01 15:00:00.000021','k2','5ae4aec9a359dd938d981b56d5b0195543424410c011421b64d8fbcf25e470e0','5ca58c55b612a9cbf03c6cdc485ebe035283008d9bf33052dabf51f0fe5c93fe');
INSERT INTO "versions" VALUES(2,3,'update','Alice lives in Zurich.','895f5f080628e1c1c4adc38cbe31234c6f0c57205bad7005d80bd1f4b27f4231',NULL,'{}','2026-01-01 16:00:00.000028',NULL,'5ca58c55b612a9cbf03c6cdc485ebe035283008d9bf33052dabf51f0fe5c93fe','9ef43714592d713121aaf301b55288a876e2ccea09eeac5e56a1b2ca43b5603d');
INSERT INTO "versions" VALUES(2,4,'rollback','','e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',2,'{"why":"wrong"}','2026-01-01 17:00:00.000035',NULL,'9ef43714592d713121aaf301b55288a876e2ccea09eeac5e56a1b2ca43b5603d','450279c5ae34355fe115274be6a7f7d83fdbf4992b4ca951dc1d41bf1aaa5a90');
INSERT INTO "versions" VALUES(2,5,'update','Alice lives in Rome.','b2b4f8492df09cded22910cbe6b82055922c06aba3f935a98a7edb32b72b3a43',NULL,'{}','2026-01-01 20:00:00.000056',NULL,'450279c5ae34355fe115274be6a7f7d83fdbf4992b4ca951dc1d41bf1aaa5a90','df1f853f9b48cc4959567d798e2c417e146d626218498caa901be663df4f2895');
CREATE INDEX ix_versions_created_at ON versions (memory_id, created_at, number);
CREATE INDEX ix_versions_rollbacks ON versions (memory_id, number, restores) WHERE kind = 'rollback';
CREATE TRIGGER versions_no_update BEFORE UPDATE ON versions
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: UPDATE refused'); END;
CREATE TRIGGER versions_no_delete BEFORE DELETE ON versions
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: DELETE refused'); END;
CREATE TRIGGER versions_no_replace BEFORE INSERT ON versions
    WHEN EXISTS (SELECT 1 FROM versions WHERE memory_id = NEW.memory_id AND number = NEW.number)
      OR EXISTS (SELECT 1 FROM versions
                 WHERE memory_id = NEW.memory_id AND idempotency_key = NEW.idempotency_key)
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: the version or its idempotency key exists'); END;
COMMIT;
