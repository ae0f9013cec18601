-- A database of schema revision 0002, as the release that had it wrote it. Never regenerated: old bytes must stay readable.
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
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
INSERT INTO "memories" VALUES(1,'alice','2026-02-01 13:00:00.000007',7,'c67308a2a87201efd024b5e2149590527f0815d05bba0085488c94c7920f148d',NULL,NULL);
INSERT INTO "memories" VALUES(2,'what-if','2026-02-01 21:00:00.000063',8,'60bf097e6977f061526b977f814619a74c919bfc45341c25bd79918d0535aa75','alice',6);
INSERT INTO "memories" VALUES(3,'empty','2026-02-02 00:00:00.000084',0,'0000000000000000000000000000000000000000000000000000000000000000',NULL,NULL);
CREATE TABLE "versions" (
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
	forgets BIGINT, 
	PRIMARY KEY (memory_id, number), 
	CONSTRAINT fk_versions_memory_id FOREIGN KEY(memory_id) REFERENCES memories (id), 
	CONSTRAINT uq_versions_idempotency_key UNIQUE (memory_id, idempotency_key), 
	CONSTRAINT ck_versions_number CHECK (number >= 1), 
	CONSTRAINT ck_versions_kind CHECK ((kind = 'update' AND restores IS NULL AND forgets IS NULL) OR (kind = 'rollback' AND restores IS NOT NULL AND restores >= 1 AND restores < number AND forgets IS NULL) OR (kind = 'forget' AND forgets IS NOT NULL AND forgets >= 1 AND forgets < number AND restores IS NULL))
);
INSERT INTO "versions" VALUES(1,1,'update','Alice löst 漢字 🎉; it''s "hard".','6008171344f27da23e4820681bf11b4072276d54ecf76c5916ec5f3b7d68c010',NULL,'{"a":{"\u00e9":1.5},"b":[1,null]}','2026-02-01 14:00:00.000014','k1','0000000000000000000000000000000000000000000000000000000000000000','31cf3c524d8e8ef3833f514eb41affe8a0f94406fc0eac20886045a9fda45657',NULL);
INSERT INTO "versions" VALUES(1,2,'update','Alice lives in Bern.
She has a cat.','cd13b3a77b958ee08283c6005659650eedd20a06daf4ae2051e474bf5b7af69a',NULL,'{}','2026-02-01 15:00:00.000021','k2','31cf3c524d8e8ef3833f514eb41affe8a0f94406fc0eac20886045a9fda45657','6601d143b06d140725855f1edadeb11c3131380dab91351dd64f92f52eabc65e',NULL);
INSERT INTO "versions" VALUES(1,3,'update','Alice lives in Zurich.','895f5f080628e1c1c4adc38cbe31234c6f0c57205bad7005d80bd1f4b27f4231',NULL,'{}','2026-02-01 16:00:00.000028',NULL,'6601d143b06d140725855f1edadeb11c3131380dab91351dd64f92f52eabc65e','484fba30cade43e17c4973c7835914d42b299cc7c4e4dfea4f7b7159c5e4e576',NULL);
INSERT INTO "versions" VALUES(1,4,'rollback','','e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',2,'{"why":"wrong"}','2026-02-01 17:00:00.000035',NULL,'484fba30cade43e17c4973c7835914d42b299cc7c4e4dfea4f7b7159c5e4e576','895b41978e478b3a44ef31505db70a1509a2dbe9db8813bfbf701a8e401a3fc7',NULL);
INSERT INTO "versions" VALUES(1,5,'update','Alice lives in Chur.','d75ad45e076c7c82234932f5822258278b0abd2dd7128d4c52376dec0111c9e9',NULL,'{}','2026-02-01 18:00:00.000042',NULL,'895b41978e478b3a44ef31505db70a1509a2dbe9db8813bfbf701a8e401a3fc7','942c5d185ef19a3f23ccd4b90f42fe121f2a0fc0987fe8175ebdca70c46ed02e',NULL);
INSERT INTO "versions" VALUES(1,6,'forget','','e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',NULL,'{"reason":"Alice asked"}','2026-02-01 19:00:00.000049','k3','942c5d185ef19a3f23ccd4b90f42fe121f2a0fc0987fe8175ebdca70c46ed02e','cf3542cada045353ba240af1987efbf9a147e7f78d91ca544674b9436e38ec9a',2);
INSERT INTO "versions" VALUES(1,7,'update','Alice has a dog.','b708ff5794e25ec06b80b46dda2d7031dc5e637549a59d42d021a75dd22ea6d7',NULL,'{}','2026-02-01 20:00:00.000056',NULL,'cf3542cada045353ba240af1987efbf9a147e7f78d91ca544674b9436e38ec9a','c67308a2a87201efd024b5e2149590527f0815d05bba0085488c94c7920f148d',NULL);
INSERT INTO "versions" VALUES(2,1,'update','Alice löst 漢字 🎉; it''s "hard".','6008171344f27da23e4820681bf11b4072276d54ecf76c5916ec5f3b7d68c010',NULL,'{"a":{"\u00e9":1.5},"b":[1,null]}','2026-02-01 14:00:00.000014','k1','0000000000000000000000000000000000000000000000000000000000000000','31cf3c524d8e8ef3833f514eb41affe8a0f94406fc0eac20886045a9fda45657',NULL);
INSERT INTO "versions" VALUES(2,2,'update','Alice lives in Bern.
She has a cat.','cd13b3a77b958ee08283c6005659650eedd20a06daf4ae2051e474bf5b7af69a',NULL,'{}','2026-02-01 15:00:00.000021','k2','31cf3c524d8e8ef3833f514eb41affe8a0f94406fc0eac20886045a9fda45657','6601d143b06d140725855f1edadeb11c3131380dab91351dd64f92f52eabc65e',NULL);
INSERT INTO "versions" VALUES(2,3,'update','Alice lives in Zurich.','895f5f080628e1c1c4adc38cbe31234c6f0c57205bad7005d80bd1f4b27f4231',NULL,'{}','2026-02-01 16:00:00.000028',NULL,'6601d143b06d140725855f1edadeb11c3131380dab91351dd64f92f52eabc65e','484fba30cade43e17c4973c7835914d42b299cc7c4e4dfea4f7b7159c5e4e576',NULL);
INSERT INTO "versions" VALUES(2,4,'rollback','','e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',2,'{"why":"wrong"}','2026-02-01 17:00:00.000035',NULL,'484fba30cade43e17c4973c7835914d42b299cc7c4e4dfea4f7b7159c5e4e576','895b41978e478b3a44ef31505db70a1509a2dbe9db8813bfbf701a8e401a3fc7',NULL);
INSERT INTO "versions" VALUES(2,5,'update','Alice lives in Chur.','d75ad45e076c7c82234932f5822258278b0abd2dd7128d4c52376dec0111c9e9',NULL,'{}','2026-02-01 18:00:00.000042',NULL,'895b41978e478b3a44ef31505db70a1509a2dbe9db8813bfbf701a8e401a3fc7','942c5d185ef19a3f23ccd4b90f42fe121f2a0fc0987fe8175ebdca70c46ed02e',NULL);
INSERT INTO "versions" VALUES(2,6,'forget','','e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',NULL,'{"reason":"Alice asked"}','2026-02-01 19:00:00.000049','k3','942c5d185ef19a3f23ccd4b90f42fe121f2a0fc0987fe8175ebdca70c46ed02e','cf3542cada045353ba240af1987efbf9a147e7f78d91ca544674b9436e38ec9a',2);
INSERT INTO "versions" VALUES(2,7,'forget','','e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',NULL,'{}','2026-02-01 22:00:00.000070',NULL,'cf3542cada045353ba240af1987efbf9a147e7f78d91ca544674b9436e38ec9a','dd9068bf166b3ef4c9dddd9b17a3fb61b38a39498d534d70aab3d3d934c2496f',5);
INSERT INTO "versions" VALUES(2,8,'update','Alice lives in Rome.','b2b4f8492df09cded22910cbe6b82055922c06aba3f935a98a7edb32b72b3a43',NULL,'{}','2026-02-01 23:00:00.000077',NULL,'dd9068bf166b3ef4c9dddd9b17a3fb61b38a39498d534d70aab3d3d934c2496f','60bf097e6977f061526b977f814619a74c919bfc45341c25bd79918d0535aa75',NULL);
CREATE INDEX ix_versions_created_at ON versions (memory_id, created_at, number);
CREATE TRIGGER versions_no_update BEFORE UPDATE ON versions
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: UPDATE refused'); END;
CREATE TRIGGER versions_no_delete BEFORE DELETE ON versions
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: DELETE refused'); END;
CREATE TRIGGER versions_no_replace BEFORE INSERT ON versions
    WHEN EXISTS (SELECT 1 FROM versions WHERE memory_id = NEW.memory_id AND number = NEW.number)
      OR EXISTS (SELECT 1 FROM versions
                 WHERE memory_id = NEW.memory_id AND idempotency_key = NEW.idempotency_key)
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: the version or its idempotency key exists'); END;
CREATE INDEX ix_versions_undos ON versions (memory_id, number, kind, restores, forgets) WHERE kind <> 'update';
COMMIT;
