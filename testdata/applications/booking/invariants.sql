create assertion somebody_on_call check ((select count(*) from on_call where active) >= 1);
create assertion invoices_dense check (not exists (select 1 from invoices group by hotel_id having max(no) <> count(*)));
